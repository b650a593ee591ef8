"""A real Elasticsearch node for demos and tests, from parts that pip and Maven deliver: no Docker, no Java, no root.

It serves the server's core on the loopback address only and stops with the program that started it.
"""

from embedded.artifacts import VERSION
from embedded.cluster import EmbeddedCluster
from embedded.errors import EmbeddedNodeError
from embedded.node_process import NodeProcess
from embedded.options import NodeOptions
from embedded.progress import Progress, ProgressCallback

__all__ = [
    "VERSION",
    "EmbeddedCluster",
    "EmbeddedNodeError",
    "NodeOptions",
    "NodeProcess",
    "Progress",
    "ProgressCallback",
]
