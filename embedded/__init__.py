"""A real Elasticsearch node for demos and tests, installed by pip and Maven: no Docker, no Java, no root.

It runs the core of the server, listens on the loopback address only, and stops with the program that started it.
"""

from embedded.artifacts import VERSION
from embedded.embedded_cluster import EmbeddedCluster
from embedded.node_options import DataFolderError, EmbeddedNodeError, NodeOptions, ProgressCallback, StartProgress
from embedded.node_process import NodeProcess

__all__ = [
    "VERSION",
    "DataFolderError",
    "EmbeddedCluster",
    "EmbeddedNodeError",
    "NodeOptions",
    "NodeProcess",
    "ProgressCallback",
    "StartProgress",
]
