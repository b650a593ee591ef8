"""A continuously changing source: batches of updates, deletions and inserts, and full rebuilds."""

import asyncio
import copy
import datetime as dt
import random
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from indexer import IndexerContext, OnProgress, RebuildRequest, RunSummary, open_source, reindex, update
from indexer.reporting.report import ignore_progress
from mappings import LISTING, SOLD_LISTING
from tests.chaos.record_history import RecordHistory
from tests.contract.world import Envelope

_BATCH = 40  # records
_DELETED = 0.2  # of the records of a batch; as many are new
_REST_SECONDS = 0.5
_RESOURCES = (LISTING, SOLD_LISTING)


@dataclass
class SourceChanger:
    """Changes both feeds through the indexer, and records the changes in their histories first."""

    engine: IndexerContext
    histories: dict[str, RecordHistory]
    companies: list[Envelope]
    chance: random.Random
    rebuild_seconds: float  # from one rebuild to the next
    updates: int = 0
    rebuilds: int = 0
    stopping: bool = False
    _new: int = 0
    _rebuilt: float = field(default_factory=time.monotonic)

    async def run(self) -> None:
        """Make changes until stopped, then finish the current one."""
        while not self.stopping:
            await self._update()
            self.updates += 1
            if time.monotonic() - self._rebuilt > self.rebuild_seconds:
                await self.rebuild()
                self.rebuilds, self._rebuilt = self.rebuilds + 1, time.monotonic()
            await asyncio.sleep(_REST_SECONDS)

    async def _update(self) -> None:
        batches = {alias: self._batch(history) for alias, history in self.histories.items()}
        lines = {alias: [_line(name, one) for name, one in batch.items()] for alias, batch in batches.items()}
        for alias, batch in batches.items():
            self.histories[alias].change({name: one if "deleted" not in one else None for name, one in batch.items()})
        with tempfile.TemporaryDirectory(prefix="brokerage-soak-") as folder:
            write_lines(Path(folder), lines)
            with open_source(folder) as source:
                _require(await update(self.engine, source))
        for alias, batch in batches.items():
            self.histories[alias].settled(batch)

    async def rebuild(self, on_progress: OnProgress = ignore_progress) -> None:
        """Rebuild both feeds from the current records, which changes nothing."""
        lines = {alias: history.current() for alias, history in self.histories.items()}
        with tempfile.TemporaryDirectory(prefix="brokerage-soak-") as folder:
            write_lines(Path(folder), {"companies": self.companies, **lines})
            with open_source(folder) as source:
                _require(await reindex(self.engine, source, RebuildRequest(_RESOURCES, on_progress=on_progress)))

    def _batch(self, history: RecordHistory) -> dict[str, Envelope]:
        """Return envelopes by identifier: some change a record, some delete one, some are new."""
        chosen = self.chance.sample(history.current(), _BATCH)
        return dict(self._changed(envelope) for envelope in chosen)

    def _changed(self, envelope: Envelope) -> tuple[str, Envelope]:
        made: dict[str, Any] = copy.deepcopy(envelope)
        made["updated_at"] = dt.datetime.now(dt.UTC).isoformat().replace("+00:00", "Z")
        made["record"]["PublicTitle"] = f"changed at {made['updated_at']}"
        what = self.chance.random()
        if what < _DELETED:
            made["deleted"] = True
        elif what < 2 * _DELETED:
            self._new += 1
            made["record"]["PlatformListingId"] += f"-{self._new}"  # sorts behind the one that it is like
        return str(made["record"]["PlatformListingId"]), made


def _line(name: str, envelope: Envelope) -> Envelope:
    """Return the source's envelope: that of a deletion only names its company."""
    return {**envelope, "record": {"PlatformListingId": name}} if "deleted" in envelope else envelope


def write_lines(folder: Path, lines: Mapping[str, Iterable[Envelope]]) -> None:
    """Write a source folder: envelopes by the alias of their resource."""
    for alias, envelopes in lines.items():
        (folder / f"{alias}.ndjson").write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in envelopes))


def _require(summary: RunSummary) -> None:
    if summary.exit_code:
        raise RuntimeError(f"The indexer refused what it was given: {summary}.")
