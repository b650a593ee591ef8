"""Two brokerages load one installation, each from its own source, while readers of both look all the time."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from mappings import TEAM
from tests.indexer.conftest import Bench
from tests.indexer.faults.process_killer import KillPoint
from tests.indexer.rebuild.two_companies import Loader, team
from tests.records import deletion, write

State = Mapping[str, int | None]  # by team: the minute of its state, None for a deleted one

_PAUSE_SECONDS = 0.2
_CHANGES = 5
ENVIRONMENT = {"BROKERAGE_LOCK_WAIT_SECONDS": "240", "BROKERAGE_SHRINK_LIMIT": "1", "BROKERAGE_GROWTH_LIMIT": "9"}


@dataclass
class Shop:
    """A brokerage: what its teams are now, and the next source that it loads."""

    loader: Loader
    state: dict[str, int | None]
    minute: int = 0
    names: int = 0

    @property
    def key(self) -> str:
        return self.loader.key

    def rebuild(self, chance: random.Random) -> tuple[list[str], dict[str, int | None]]:
        """Write a full source: some teams unchanged, some changed, some gone, some new or back."""
        self.minute += 1
        served_now = [name for name, at in self.state.items() if at is not None]
        gone = set(chance.sample(served_now, min(_CHANGES, len(served_now) // 2)))
        changed = {name for name in served_now if chance.random() < 0.5}
        new = {name: at for name, at in self.state.items() if name in served_now and name not in gone}
        new |= dict.fromkeys(changed - gone, self.minute)
        back = chance.sample(sorted(self.state.keys() - set(served_now)), min(2, len(self.state) - len(served_now)))
        new |= dict.fromkeys([*back, *(self._new_name() for _ in range(_CHANGES))], self.minute)
        source = self.loader.source([team(self.key, name, at or 0) for name, at in new.items()])
        return ["reindex", source, "teams"], {**dict.fromkeys(self.state), **new}

    def update(self, chance: random.Random, folder: Path) -> tuple[list[str], dict[str, int | None]]:
        """Write changes, deletions and new teams."""
        self.minute += 1
        chosen = chance.sample(sorted(self.state), _CHANGES)
        changes: dict[str, int | None] = dict.fromkeys(chosen, self.minute)
        changes |= {self._new_name(): self.minute, chosen[0]: None}
        lines = [self._line(name, at) for name, at in changes.items()]
        write(folder, {TEAM: lines})
        return ["update", str(folder), "--company", self.key], self.state | changes

    def _line(self, name: str, at: int | None) -> dict[str, Any]:
        if at is not None:
            return team(self.key, name, at)
        moment = str(team(self.key, name, self.minute)["updated_at"])
        return deletion(TEAM, name, moment) | {"platform_company_id": self.key}

    def _new_name(self) -> str:
        self.names += 1
        return f"{self.key}-new-{self.names}"


@dataclass
class Reader:
    """What readers of one company saw: each look is at all its teams."""

    old: State
    new: State
    is_rebuilt: bool = True
    looks: int = 0
    wrong: list[set[tuple[str, int]]] = field(default_factory=list)

    def see(self, found: set[tuple[str, int]]) -> None:
        """Note a look at a mixture. Only an update may become visible record by record."""
        self.looks += 1
        known = dict(found)
        names = self.old.keys() | self.new.keys() | known.keys()
        is_mixed = any(known.get(name) not in {self.old.get(name), self.new.get(name)} for name in names)
        if is_mixed if not self.is_rebuilt else found not in (live(self.old), live(self.new)):
            self.wrong.append(found)


@asynccontextmanager
async def reading(bench: Bench, readers: Mapping[str, Reader]) -> AsyncIterator[None]:
    """Let readers of each company look at all its live teams until the block ends."""
    tasks = [asyncio.create_task(_look(bench, company, reader)) for company, reader in readers.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _look(bench: Bench, company: str, reader: Reader) -> None:
    while True:
        reader.see(await served(bench, company))
        await asyncio.sleep(_PAUSE_SECONDS)


async def served(bench: Bench, company: str) -> set[tuple[str, int]]:
    """Return the live teams of a company, each with the minute of its state."""
    query = {"bool": {"filter": [{"term": {"company": company}}, {"term": {"deleted": False}}]}}
    answer = await bench.client.search(index=bench.connection.alias(TEAM), size=10_000, query=query)
    return {(hit["_id"], minute_of(hit["_source"])) for hit in answer["hits"]["hits"]}


def minute_of(document: Mapping[str, Any]) -> int:
    """Return the minute that a team's name states."""
    return int(document["record"]["name"].rpartition(" ")[2])


def live(state: State) -> frozenset[tuple[str, int]]:
    return frozenset((name, at) for name, at in state.items() if at is not None)


def moments(chance: random.Random) -> list[KillPoint]:
    """Return when to kill a command, if at all: at some request of a stage, or at some time."""
    if chance.random() < 0.4:
        return []
    stage = chance.choice(["reading", "comparing", "finishing", "finishing", "swapping", ""])
    if not stage:
        return [KillPoint("", seconds=chance.uniform(0.5, 2))]
    return [KillPoint(stage, chance.randint(1, 16), is_effective=chance.random() < 0.5)]


def blocked(settings: Mapping[str, Any]) -> bool:
    """Whether an index refuses writes."""
    return orjson.dumps(settings).find(b'"write":"true"') >= 0
