"""What a build and its loader processes exchange over pipes: pickled messages, each after its length.

A loader trusts its parent, and the parent the process that it started: no other process has the pipe.
"""

import asyncio
import copyreg
import pickle
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

from cluster.connection import ConnectionSettings
from indexer.build.chunk_writer import LoadedLines
from indexer.build.swap_gate import SampledDocument
from indexer.documents.companies import Companies
from indexer.settings import IndexerSettings
from indexer.source.line_ranges import LineRange
from mappings import RESOURCES, Resource
from mappings.shards.ranges import ShardRanges

_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True)
class LoaderSettings:
    """The first message to a loader."""

    connection: ConnectionSettings
    indexer: IndexerSettings


@dataclass(frozen=True)
class LoadOrder:
    """Into which candidate the ranges that follow are loaded: behind the alias `fence`, with these shard ranges.

    `live` is the generation that it replaces, None for the first one. `opaque_id` is the X-Opaque-Id of writes.
    """

    resource: Resource
    companies: Companies
    live: str | None
    fence: str
    opaque_id: str
    ranges: ShardRanges


class RangeOrder(NamedTuple):
    """A range to load, and its number among those that the loader was given."""

    number: int
    lines: LineRange


class RangeOutcome(NamedTuple):
    """What became of a range. `sample` are documents that the loader has added to its sample."""

    number: int
    loaded: LoadedLines
    sample: list[SampledDocument]


class RangeFailure(NamedTuple):
    """The error that ended the load of a range."""

    number: int
    error: Exception


def packed(message: object) -> bytes:
    """Return a message as it is sent."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


async def received(stream: asyncio.StreamReader) -> Any:
    """Return the next message, None at the end of the stream, also if it ends within a message."""
    try:
        (size,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
        content = await stream.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return pickle.loads(content)  # noqa: S301 - of our own process, see above


def _resource(alias: str) -> Resource:
    return next(resource for resource in RESOURCES if resource.alias == alias)


# Resources are constants, compared by identity.
copyreg.pickle(Resource, lambda resource: (_resource, (resource.alias,)))
