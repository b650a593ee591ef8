"""The documents of the control index through which hosts share a build.

One document describes the build, one for each host offers its places, and each place has one that both sides write in
turn: the coordinator a range, the host its outcome. Only JSON of declared shapes is read, never pickled objects: others
than the two hosts may write to the control index.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

import msgspec

from indexer.build.chunk_writer import LoadedLines
from indexer.build.hosts.build_terms import BuildTerms
from indexer.build.swap_gate import SampledDocument
from indexer.documents.companies import Companies
from indexer.errors import InvalidRecordError
from indexer.reporting.report import RoundedField, RunSummary
from indexer.source.lines import RejectedLine, SourceLine
from mappings.shards.ranges import ShardRanges

if TYPE_CHECKING:
    from indexer.build.parallel.messages import RangeOutcome
    from mappings import Resource

BUILD_ID = "shared-build"
LOCK_ID = "lock-run"
# Each takes one id in every request of the coordinator.
MAX_HOSTS = 16
HOST_IDS = tuple(f"shared-host-{slot}" for slot in range(MAX_HOSTS))

Content = TypeVar("Content")


def place_id(host: str, number: int) -> str:
    """Return the id of a place of the host with this document."""
    return f"{host}-{number}"


class SharedBuild(msgspec.Struct):
    """The build of the lock's holder with this token. `outcome` is empty while it runs."""

    token: int
    coordinator: str
    terms: BuildTerms
    order: int = 0  # the number of `packed_order`
    packed_order: str = ""  # of a HostOrder: how the present resource is loaded
    outcome: str = ""  # of a BuildOutcome


class BuildOutcome(msgspec.Struct):
    """How a shared build has ended: with a summary, or an error and the exit code of the command."""

    summary: RunSummary | None
    error: str = ""
    exit_code: int = 0


class HostOrder(msgspec.Struct):
    """Into which candidate the ranges of a resource are loaded, as in `parallel.messages.LoadOrder`."""

    resource: str  # its alias
    companies: Companies
    live: str | None
    fence: str
    opaque_id: str
    ranges: ShardRanges


class HostOffer(msgspec.Struct, frozen=True):
    """A host that helps the build with a token. `nonce` distinguishes it from others that had the same document."""

    token: int
    nonce: str
    name: str
    places: int


class PlacedRange(msgspec.Struct):
    """A range for a place of the host with a nonce, and its outcome once the host has written it.

    `span` are the members of a FileRange that follow its path, `digest` that of its bytes.
    """

    nonce: str
    number: int  # rises with every range of the build
    order: int
    span: tuple[int, int, int, int, int]
    digest: str
    outcome: str = ""  # of a HostedLines


class HostedRejection(msgspec.Struct):
    """A rejected line of a range."""

    line: SourceLine
    field: str
    reason: str
    identifiers: frozenset[str] | None

    @classmethod
    def of(cls, item: RejectedLine) -> HostedRejection:
        """Return what is written of a rejected line."""
        return cls(item.line, item.error.field, item.error.reason, item.identifiers)

    def read(self, resource: Resource) -> RejectedLine:
        """Return the rejected line of a resource."""
        return RejectedLine(self.line, InvalidRecordError(self.field, self.reason), resource, self.identifiers)


class HostedLines(msgspec.Struct):
    """What became of a range: the members of LoadedLines, the sample of RangeOutcome, and `exits` of loaders."""

    read: int
    last_line: int
    position: int
    newest: int
    corrected: int
    roundings: list[RoundedField]
    rejected: list[HostedRejection]
    repeated: list[str]
    copied: list[str]
    retries: int
    sample: list[SampledDocument]
    exits: list[str]

    @classmethod
    def of(cls, outcome: RangeOutcome, exits: list[str]) -> HostedLines:
        """Return what is written of an outcome."""
        counts = {each.name: getattr(outcome.loaded, each.name) for each in fields(LoadedLines)}
        rejected = [HostedRejection.of(item) for item in outcome.loaded.rejected]
        return cls(**counts | {"rejected": rejected, "sample": outcome.sample, "exits": exits})

    def loaded(self, resource: Resource) -> LoadedLines:
        """Return what became of the range of a resource."""
        counts = {each.name: getattr(self, each.name) for each in fields(LoadedLines)}
        return LoadedLines(**counts | {"rejected": [item.read(resource) for item in self.rejected]})


def pack(content: object) -> str:
    """Return a compressed text of a content."""
    return base64.b85encode(zlib.compress(msgspec.json.encode(content), 1)).decode()


def unpack(packed: str, kind: type[Content]) -> Content:
    """Return the content of a text."""
    return msgspec.json.decode(zlib.decompress(base64.b85decode(packed)), type=kind)
