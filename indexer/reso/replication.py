"""One replication: load, follow, compare, tell; all of it again from where it stood, whenever it was stopped."""

from __future__ import annotations

import asyncio
import fcntl
import sqlite3
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from indexer.errors import LockedError, SourceError
from indexer.reso import metadata
from indexer.reso.access import Access
from indexer.reso.account import Round, lines
from indexer.reso.answers import Refused
from indexer.reso.events import ENTITY, Events
from indexer.reso.mirror import Mirror
from indexer.reso.offered import NOT_GRANTED, granted, readers_of
from indexer.reso.plan import BY_EVENTS, BY_TIMES
from indexer.reso.telling import Telling
from indexer.reso.web import Web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping

    from indexer.engine import Engine
    from indexer.report import OnProgress
    from indexer.reso.plan import Plan
    from indexer.reso.settings import ResoSettings
    from indexer.reso.walks import Walks

Result = TypeVar("Result")


@asynccontextmanager
async def replicating(
    engine: Engine, plan: Plan, settings: ResoSettings, on_progress: OnProgress, on_wait: Callable[[str], None]
) -> AsyncIterator[Rounds]:
    """Open mirror and source; raise SourceError, LockedError, EngineError."""
    with _only_one(Path(settings.folder), plan.name) as path, _failures_told():
        mirror, web = Mirror(path, plan.dictionary), Web(plan.url, settings, on_wait)
        await web.open()
        try:
            yield await _opened(engine, plan, Access(web, mirror, settings, on_progress))
        finally:
            await web.close()
            mirror.close()


@contextmanager
def _only_one(folder: Path, name: str) -> Iterator[Path]:
    """Hold the lock of a mirror, which the system takes back when its holder ends, however that comes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"{name}.lock").open("w")
    except OSError as error:
        raise SourceError(f"{folder} cannot be used: {error.strerror}. BROKERAGE_RESO_DIR names it.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"Another run replicates into {folder / name}.") from None
        yield folder / f"{name}.sqlite"


@contextmanager
def _failures_told() -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        raise SourceError(str(refused)) from None
    except sqlite3.Error as error:
        raise SourceError(f"The mirror in BROKERAGE_RESO_DIR cannot be used: {error}.") from error


async def _opened(engine: Engine, plan: Plan, source: Access) -> Rounds:
    offered = await source.web.metadata(metadata.entities)
    if plan.changes == BY_EVENTS and ENTITY not in offered:
        raise SourceError(f"The source has no {ENTITY}: follow it by timestamps.")
    described = readers_of(plan, source, offered)
    telling = Telling(engine, plan, source.mirror, source.on_progress)
    await telling.begin()
    withheld: list[str] = []
    walks = await granted(described, withheld)
    is_by_events = plan.changes != BY_TIMES and ENTITY in offered
    events = await _events(plan, source, walks, withheld) if is_by_events else None
    return Rounds(source, walks, events, telling, withheld)


async def _events(plan: Plan, source: Access, walks: Mapping[str, Walks], withheld: list[str]) -> Events | None:
    """Return the events from a mark on, None where the source describes them and does not grant them.

    What came between a load without a mark and the mark is found by comparing keys, which is noted before the mark is.
    """
    events = Events(source.web, source.mirror, {name: each.reader for name, each in walks.items()}, source.settings)
    if events.reached is None:
        try:
            end = await events.end()
        except Refused as refused:
            if plan.changes == BY_EVENTS or refused.status not in NOT_GRANTED:
                raise
            withheld.append(f"{refused} It is followed by timestamps.")
            return None
        for each in walks.values():
            if each.standing.loaded:
                each.note_comparison(0.0)
        events.mark(end)
    return events


@dataclass
class Rounds:
    """The rounds of an open replication."""

    source: Access
    walks: dict[str, Walks]
    events: Events | None
    telling: Telling
    withheld: list[str]  # what is to be said of entities that are not granted

    async def round(self) -> Round:
        """Read what changed, tell it, and note how far everything is complete."""
        began = self.source.web.now
        by_events = await self._covered()
        complaints: list[str] = []
        await together(*(self._read(each, by_times=name not in by_events) for name, each in self.walks.items()))
        if self.events is not None and not await self.events.follow():
            complaints.append("The source has begun a new sequence of events: all keys are compared.")
            await together(*(each.compare() for each in self.walks.values()))
            self.events.begin_anew()
        complaints += [each.standing.refused for each in self.walks.values() if each.standing.refused]
        if refusal := self.telling.guard(self.source.settings.removal_limit):
            complaints.append(refusal)
        summary = await self.telling.tell()
        followed_by = BY_EVENTS if by_events else BY_TIMES
        complete = None if any(each.refusal for each in summary.resources) else int(began.timestamp() * 1000)
        await self.telling.note(complete, followed_by, " ".join(complaints) or None)
        said = lines((each.reader for each in self.walks.values()), self.source.web.traffic, self.telling.outbox)
        said, self.withheld = [*self.withheld, *said], []
        summary.complaints = complaints
        return Round(summary, said)

    async def _covered(self) -> frozenset[str]:
        """Return the entities that the source has events of; the others are followed by their times."""
        if self.events is None:
            return frozenset()
        told = await together(*(self.events.tell_of(name) for name in self.walks))
        return frozenset(name for name, is_told in zip(self.walks, told, strict=True) if is_told)

    async def _read(self, walks: Walks, *, by_times: bool) -> None:
        if not walks.standing.loaded:
            await walks.load()
            if not by_times:
                await walks.compare_unless_whole()
        if by_times:
            await walks.follow()
            await walks.look_back()
        if walks.is_comparison_due():
            await walks.compare()
        walks.reader.done()


async def together(*works: Coroutine[Any, Any, Result]) -> list[Result]:
    """Do several things at once; where one fails the others are given up, and its failure is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
