"""The options of an embedded cluster."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from embedded.errors import EmbeddedNodeError

HEAP_SETTING: Final = "BROKERAGE_NODE_HEAP_MB"
MIN_HEAP_MB: Final = 256
DEFAULT_HEAP_MB: Final = 1024


def heap_from_environment() -> int:
    """The heap of each node in MB: `BROKERAGE_NODE_HEAP_MB`, by default 1024."""
    text = os.environ.get(HEAP_SETTING, str(DEFAULT_HEAP_MB))
    if not text.isdecimal() or int(text) < MIN_HEAP_MB:
        raise EmbeddedNodeError(
            f'{HEAP_SETTING} is "{text}" but must be a whole number of megabytes, {MIN_HEAP_MB} or more'
        )
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """Number, ports, data folder and size of the nodes.

    `port` is the HTTP port of the first node, followed by those of the others; None selects free ports.
    `data` is a persistent folder, by default one in the user's cache; `ephemeral` uses a temporary one instead, removed
    at the end. `heap_mb` is the heap of each node. `settings` are additional Elasticsearch settings.
    """

    nodes: int = 1
    port: int | None = None
    data: Path | None = None
    ephemeral: bool = False
    heap_mb: int = field(default_factory=heap_from_environment)
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise EmbeddedNodeError(f"nodes is {self.nodes} but must be 1 or more")
        if self.ephemeral and self.data is not None:
            raise EmbeddedNodeError("choose either a data folder or ephemeral data, not both")
