"""The progress of a build, kept in the control index so that an interrupted build resumes."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec
from elasticsearch import ConflictError, NotFoundError

from indexer.context import IndexerContext
from indexer.documents.coverage import ALL_COMPANIES, Coverage
from indexer.errors import LockedError
from indexer.indices.backoff import retry
from indexer.indices.seq_nos import StoredSeqNos


class BuildPhase(StrEnum):
    """The phases of a build, in order."""

    LOADING = "loading"
    LOADED = "loaded"  # the candidate has every line of the source
    PASSED = "passed"  # it is reconciled with the live generation and has passed the gate
    GRAFTED = "grafted"  # what differs is in a copy of the live generation, which is the candidate now


class BuildProgress(msgspec.Struct):
    """The progress of one build. A refused build keeps its candidate, which only a forced run resumes."""

    candidate: str
    live: str | None
    source: str  # the identity of the source
    fingerprint: str
    taken_at: int  # the time of the source's snapshot, microseconds since 1970
    dead_letters: str  # path of their file, which may not exist yet
    follows: StoredSeqNos  # the last `_seq_no` of the live generation that the candidate includes
    phase: BuildPhase = BuildPhase.LOADING
    line: int = 0  # every line up to this one is acknowledged
    newest: int = 0  # the latest `updated_at` among them, milliseconds since 1970
    accepted: int = 0  # records of the source, once it is loaded
    counts: dict[str, int] = {}
    bad: list[int] = []  # the numbers of the lines in the dead-letter file
    unreadable: list[str] = []  # identifiers of the records in those lines
    unidentified: list[int] | None = None  # those of the lines that name no record; None: unknown
    stray: int = 0  # lines of the source that name no resource and are reported with another
    kept: list[str] = []  # identifiers in those lines, and in no other of the source; set once it is loaded
    repeated: list[str] = []  # identifiers that were in the candidate before they were written
    copied: list[str] = []  # identifiers of which the live generation has a newer state
    forgotten: int = 0  # the highest sequence of the tombstones that were not carried over
    stamped_above: int | None = None  # the sequence above which stamps for the swap were assigned
    refusal: str | None = None
    is_overridable: bool = False  # whether force overrides the refusal
    overridden: list[str] = []  # objections that force has overridden
    warnings: list[str] = []
    companies: str = ""  # the fingerprint of the known companies
    life: str = ""  # of the live data that the candidate follows
    covered: list[str] | None = None  # the companies that the build replaces; None: all
    others: int = 0  # live records of other companies: unless there are none, a copy of the live generation has them
    copy: str | None = None  # the copy that is being made; once grafted, the candidate that it has replaced
    vanished_companies: dict[str, int] = {}  # records that the source lacks, by company

    @property
    def own(self) -> Coverage:
        """The companies whose documents the candidate is built of: all, unless a copy has those of the others."""
        return Coverage(frozenset(self.covered)) if self.others and self.covered is not None else ALL_COMPANIES


@dataclass
class BuildCheckpoint:
    """The checkpoint document of one alias. Its version is checked on every write, so two runs cannot both resume."""

    context: IndexerContext
    alias: str
    _version: dict[str, int] = field(default_factory=dict)

    @property
    def _id(self) -> str:
        return f"build-{self.alias}"

    async def read(self) -> BuildProgress | None:
        """Return the progress of an earlier run, None if there is none."""
        index = self.context.connection.control_index
        try:
            response = await self.context.client.get(index=index, id=self._id)
        except NotFoundError:
            self._version = {}
            return None
        self._version = _version(response)
        return msgspec.convert(response["_source"]["progress"], BuildProgress)

    async def write(self, progress: BuildProgress) -> None:
        """Write the progress; raise LockedError if another run has written since."""
        document = {"progress": msgspec.to_builtins(progress)}
        condition: dict[str, Any] = self._version or {"op_type": "create"}
        index = self.context.connection.control_index
        try:
            response = await retry(
                lambda: self.context.client.index(index=index, id=self._id, document=document, **condition),
                self.context.settings.retry_seconds,
            )
        except ConflictError:
            # The write may have succeeded and only its response been lost.
            if msgspec.to_builtins(await self.read()) != document["progress"]:
                raise LockedError(f"Another run has resumed the build of {self.alias}.") from None
        else:
            self._version = _version(response)

    async def clear(self) -> None:
        """Delete the checkpoint of a finished build, unless another run has written it since."""
        client, index = self.context.client.options(ignore_status=(404, 409)), self.context.connection.control_index
        condition: dict[str, Any] = self._version
        delete = partial(client.delete, index=index, id=self._id, **condition)
        await retry(delete, self.context.settings.retry_seconds)
        self._version = {}


def _version(response: Any) -> dict[str, int]:
    return {"if_seq_no": response["_seq_no"], "if_primary_term": response["_primary_term"]}
