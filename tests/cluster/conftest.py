"""What the tests of the cluster's connections share."""

from tests.loops import run

__all__ = ["run"]
