"""How far a build has come, kept in the control index: what a killed run has done is not done again."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
from elasticsearch import ConflictError, NotFoundError

from indexer.errors import LockedError
from indexer.retry import patiently

if TYPE_CHECKING:
    from indexer.engine import Engine


class Phase(StrEnum):
    """The parts of a build, in order."""

    LOADING = "loading"
    LOADED = "loaded"  # every line of the source is in the candidate
    PASSED = "passed"  # so is what the source lacks, and the gate is behind it


class Progress(msgspec.Struct):
    """Where a build stands. A build that is refused keeps its candidate, and is not gone on with."""

    candidate: str
    live: str | None
    source: str  # the identity of what is read
    fingerprint: str
    taken_at: int  # as of when the source is, microseconds since 1970
    dead_letters: str  # their file, which may not be there yet
    follows: int  # the last `_seq_no` of the live generation that the build saw at its start
    phase: Phase = Phase.LOADING
    line: int = 0  # every line up to this one is acknowledged
    newest: int = 0  # the latest `updated_at` among them, milliseconds since 1970
    accepted: int = 0  # records of the source, once it is loaded
    counts: dict[str, int] = {}
    bad: list[int] = []  # the lines among them that are in the dead-letter file
    repeated: list[str] = []  # records that were there before they were written
    copied: list[str] = []  # records of which the live generation knew better
    forgotten: int = 0  # the highest sequence of the tombstones that were not carried over
    stamped_above: int | None = None  # the sequence above which stamps for the swap were given
    refusal: str | None = None


@dataclass
class Checkpoint:
    """The document of one alias. Every write says which one it follows, so that two runs cannot both go on."""

    engine: Engine
    alias: str
    _version: dict[str, int] = field(default_factory=dict)

    @property
    def _id(self) -> str:
        return f"build-{self.alias}"

    async def read(self) -> Progress | None:
        """Return where an earlier run stopped, None where none did."""
        index = self.engine.connection.control_index
        try:
            answer = await self.engine.client.get(index=index, id=self._id)
        except NotFoundError:
            self._version = {}
            return None
        self._version = _version(answer)
        return msgspec.convert(answer["_source"]["progress"], Progress)

    async def write(self, progress: Progress) -> None:
        """Write where the build stands; raise LockedError where another run has written since."""
        document = {"progress": msgspec.to_builtins(progress)}
        condition: dict[str, Any] = self._version or {"op_type": "create"}
        index = self.engine.connection.control_index
        try:
            answer = await patiently(
                lambda: self.engine.client.index(index=index, id=self._id, document=document, **condition),
                self.engine.settings.retry_seconds,
            )
        except ConflictError:
            # What was sent may have been written, and only the answer been lost; the build has gone on meanwhile.
            if msgspec.to_builtins(await self.read()) != document["progress"]:
                raise LockedError(f"Another run goes on with the build of {self.alias}.") from None
        else:
            self._version = _version(answer)

    async def clear(self) -> None:
        """Forget a build that is over."""
        client = self.engine.client.options(ignore_status=404)
        await client.delete(index=self.engine.connection.control_index, id=self._id)
        self._version = {}


def _version(answer: Any) -> dict[str, int]:
    return {"if_seq_no": answer["_seq_no"], "if_primary_term": answer["_primary_term"]}
