"""The checkpoint of a build in the control index, from which it resumes: what it is made of, and how far it is."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec
from elasticsearch import ConflictError, NotFoundError

from indexer.control import unchanged
from indexer.documents.companies import ALL_COMPANIES, Coverage
from indexer.errors import LockedError
from indexer.generations.lifecycle import StoredSeqNos
from indexer.reporting.report import (
    Counts,
    SavedLetters,
)
from indexer.settings import IndexerContext


class BuildPhase(StrEnum):
    LOADING = "loading"
    LOADED = "loaded"  # the candidate has every line of the source
    PASSED = "passed"  # it is compared with the live generation and has passed the gates
    COPIED = "copied"  # what differs is in a copy of the live generation, which is the candidate now


class BuildBasis(msgspec.Struct, frozen=True):
    """What a build is made of: it resumes only while all of this is the same."""

    source: str  # the identity of the source
    live: str | None
    epoch_id: str = msgspec.field(name="life")  # the epoch of the live data that the candidate follows
    fingerprint: str  # of the schema
    companies: str  # the fingerprint of the known companies
    covered: list[str] | None  # the companies that the build replaces; None: all

    def obstacle(self, now: "BuildBasis") -> str | None:
        """Return why a build on this basis cannot resume on that of now, None if it can."""
        conditions = {
            "the source has changed since": self.source == now.source,
            "another version is live since": (self.live, self.epoch_id) == (now.live, now.epoch_id),
            "this program declares another schema": self.fingerprint == now.fingerprint,
            "the known companies have changed since": self.companies == now.companies,
            "it covers other companies": self.covered == now.covered,
        }
        return next((obstacle for obstacle, is_met in conditions.items() if not is_met), None)


class BuildReport(msgspec.Struct):
    """What a resumed build reports of the runs before."""

    counts: Counts = msgspec.field(default_factory=Counts)
    newest: int = 0  # the latest `updated_at` among the acknowledged lines, milliseconds since 1970
    overridden: list[str] = []  # objections that force has overridden
    warnings: list[str] = []
    vanished_companies: dict[str, int] = {}  # records that the source lacks, by company


class BuildProgress(msgspec.Struct):
    """How far a build is. A refused build keeps its candidate, which only a forced run resumes."""

    candidate: str
    basis: BuildBasis
    taken_at: int  # the time of the source's snapshot, microseconds since 1970
    letters: SavedLetters
    follows: StoredSeqNos  # the last `_seq_no` of the live generation that the candidate includes
    others: int = 0  # live records of other companies: unless there are none, a copy of the live generation has them
    phase: BuildPhase = BuildPhase.LOADING
    line: int = 0  # every line up to this one is acknowledged
    repeated: list[str] = []  # identifiers that were in the candidate before they were written
    copied: list[str] = []  # identifiers of which the live generation has a newer state
    accepted: int = 0  # records of the source, once it is loaded
    kept: list[str] = []  # identifiers in unreadable lines, and in no other of the source; set once it is loaded
    forgotten: int = 0  # the highest sequence of the tombstones that were not carried over
    copy: str | None = None  # the copy that is being made; once copied, the candidate that it has replaced
    stamped_above: int | None = None  # the sequence above which stamps for the swap were assigned
    refusal: str | None = None
    is_overridable: bool = False  # whether force overrides the refusal
    reported: BuildReport = msgspec.field(default_factory=BuildReport)

    @property
    def live(self) -> str | None:
        return self.basis.live

    @property
    def own(self) -> Coverage:
        """The companies whose documents the candidate is built of: all, unless a copy has those of the others."""
        covered = self.basis.covered
        return Coverage(frozenset(covered)) if self.others and covered is not None else ALL_COMPANIES


@dataclass
class BuildCheckpoint:
    """The checkpoint document of one alias. Its version is checked on every write, so two runs cannot both resume.

    `is_foreign` says that the document was written by another version of this program, and cannot be resumed.
    """

    context: IndexerContext
    alias: str
    is_foreign: bool = False
    _version: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._index, self._id = self.context.connection.control_index, f"build-{self.alias}"

    async def read(self) -> BuildProgress | None:
        try:
            response = await self.context.cluster.get(index=self._index, id=self._id)
        except NotFoundError:
            self._version = {}
            return None
        self._version = unchanged(response)
        try:
            return msgspec.convert(response["_source"]["progress"], BuildProgress)
        except msgspec.ValidationError:
            self.is_foreign = True
            return None

    async def write(self, progress: BuildProgress) -> None:
        """Write the progress; raise LockedError if another run has written since."""
        document = {"progress": msgspec.to_builtins(progress)}
        condition = self._version or {"op_type": "create"}
        try:
            response = await self.context.cluster.index(index=self._index, id=self._id, document=document, **condition)
        except ConflictError:
            # The write may have succeeded and only its response been lost.
            if msgspec.to_builtins(await self.read()) != document["progress"]:
                raise LockedError(f"Another run has resumed the build of {self.alias}.") from None
        else:
            self._version = unchanged(response)

    async def clear(self) -> None:
        """Delete the checkpoint of a finished build, unless another run has written it since."""
        cluster = self.context.cluster.options(ignore_status=(404, 409))
        await cluster.delete(index=self._index, id=self._id, **self._version)
        self._version = {}
