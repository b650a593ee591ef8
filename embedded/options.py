"""What the caller of an embedded cluster chooses."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from embedded.errors import EmbeddedNodeError

HEAP_SETTING: Final = "BROKERAGE_NODE_HEAP_MB"
LEAST_HEAP_MB: Final = 256
DEFAULT_HEAP_MB: Final = 1024


def heap_from_environment() -> int:
    """The heap of each node in MB: `BROKERAGE_NODE_HEAP_MB`, by default 1024."""
    text = os.environ.get(HEAP_SETTING, str(DEFAULT_HEAP_MB))
    if not text.isdecimal() or int(text) < LEAST_HEAP_MB:
        raise EmbeddedNodeError(
            f'{HEAP_SETTING} is "{text}" and must be a whole number of megabytes, {LEAST_HEAP_MB} or more'
        )
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """How many nodes, where, and how large.

    `port` is the first node's HTTP port, the next nodes take the following ones; None picks free ports.
    `data` is a folder that outlives the cluster, by default one in the user's cache; `ephemeral` uses a temporary one,
    removed at the stop, in its place. `heap_mb` is each node's. `settings` are Elasticsearch settings beside our own.
    """

    nodes: int = 1
    port: int | None = None
    data: Path | None = None
    ephemeral: bool = False
    heap_mb: int = field(default_factory=heap_from_environment)
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise EmbeddedNodeError(f"nodes is {self.nodes} and must be 1 or more")
        if self.ephemeral and self.data is not None:
            raise EmbeddedNodeError("choose either a data folder or ephemeral data, not both")
