"""A corner of the engine to replicate into."""

from tests.indexer.conftest import bench

__all__ = ["bench"]
