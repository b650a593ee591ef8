"""Random updates, rebuilds, rollbacks, killed runs and readers, compared with a log of all states.

`--soak` plays 500 runs.
"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from indexer.changes.write_session import WriteSession
from indexer.errors import RefusedError
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.rollback import rollback
from mappings import COMPANY, LISTING
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import FeedClient, JsonObject, company, deleted_listing
from tests.feed.test_change_groups import _GRANTS, listing
from tests.indexer.conftest import Bench, bench

__all__ = ["bench"]

_NAMES = tuple(f"L{at}" for at in range(6))
# A member of each group that changes here, and its values.
_MEMBERS: dict[str, tuple[str, tuple[object, ...]]] = {
    "price": ("ListPrice", (100, 200, None)),
    "status": ("Status", ("Active", "Pending", "Sold")),
    "address": ("City", ("Here", "There")),
    "remarks": ("PublicRemarks", ("short", "long")),
    "commission": ("BuyerCommissionValue", ("2", "3")),
    "details": ("YearBuilt", (1990, 2000)),
}
_REMEMBERED = ("price", "status")


class Killed(Exception):
    """The run is over."""


class State(NamedTuple):
    """A state of a record; a deleted one has no values."""

    sequence: int
    company: str
    values: JsonObject | None


class Told(NamedTuple):
    is_new: bool
    changed: list[str]
    previous: JsonObject


@dataclass
class Reader:
    """A consumer with a copy of the records of some companies, and what its changes are named since."""

    key: str
    size: int
    filters: dict[str, str]
    token: str = ""
    copy: dict[str, JsonObject] = field(default_factory=dict)
    bases: tuple[int, ...] = (0,)
    position: int = 0  # the sequence of the mark when it last read to the end

    @property
    def companies(self) -> set[str]:
        return {"a", "b"} if self.key == "ab" else {"a"}

    @property
    def groups(self) -> set[str]:
        asked = {*self.filters["changed"].split(",")} if self.filters else {*_MEMBERS}
        return asked - ({"commission"} if self.key == "poor" else set())


@dataclass
class Run:
    feed: FeedClient
    chance: random.Random
    log: dict[str, list[State]] = field(default_factory=dict)
    second: int = 0
    source: dict[str, JsonObject] = field(default_factory=dict)  # the newest line of each record that is not deleted
    named: int = 0

    async def write_log(self) -> None:
        """Record the states that can be found, of which some may not be published."""
        for name, document in (await self.feed.bench.served(LISTING)).items():
            states = self.log.setdefault(name, [])
            if "/" in name or (states and states[-1].sequence == document["sequence"]):
                continue
            record = document.get("record")
            values = record and {group: record[member] for group, (member, _) in _MEMBERS.items()}
            states.append(State(document["sequence"], document["company"], values))
        for states in self.log.values():
            states.sort(key=lambda state: state.sequence)

    def line(self, name: str) -> JsonObject:
        known = self.source.get(name)
        record = dict(known["record"]) if known else {"PlatformListingId": name}
        for member, values in self.chance.sample([*_MEMBERS.values()], self.chance.choice((1, 1, 2, 0))):
            record[member] = self.chance.choice(values)
        of = self.chance.choice("aaaaaab" if known is None or known["platform_company_id"] == "a" else "ba")
        return listing(name, self.second, of, **record)

    async def update(self) -> None:
        self.second += 1
        lines = []
        for name in self.chance.sample(_NAMES, self.chance.randint(1, 4)):
            if name in self.source and self.chance.random() < 0.15:
                lines.append(deleted_listing(name, self.source.pop(name)["platform_company_id"], self.second))
            elif name in self.source and self.chance.random() < 0.15:
                lines.append(listing(name, self.second - 3, self.source[name]["platform_company_id"]))  # late
            else:
                self.source[name] = self.line(name)
                lines.append(self.source[name])
        await self.feed.bench.update({LISTING: lines})

    async def rebuild(self) -> None:
        self.second += 1
        for name in self.chance.sample(_NAMES, 2):
            self.source[name] = self.line(name)
        lines = list(self.source.values())
        await self.feed.bench.build({COMPANY: [company(key) for key in "ab"], LISTING: lines}, force=True)

    async def killed(self) -> None:
        """Let an update or a rebuild end just before it would publish."""
        work, of = self.chance.choice([(self.update, WriteSession), (self.rebuild, GenerationLifecycle)])
        name = "publish_mark" if of is WriteSession else "swap"
        with patch.object(of, name, side_effect=Killed), suppress(Killed, ExceptionGroup):
            await work()
        await self.feed.bench.client.indices.refresh(index=self.feed.bench.connection.alias(LISTING))

    async def roll_back(self, readers: list[Reader]) -> None:
        try:
            await rollback(self.feed.bench.engine(), LISTING)
        except RefusedError:
            return  # there is no earlier generation
        self.log.clear()
        for reader in readers:
            reader.token = ""

    def expected(self, name: str, base: int, groups: set[str]) -> Told:
        """Return what has changed in a record since a sequence, by brute force."""
        known, told = None, Told(False, [], {})
        for state in self.log[name]:
            if state.sequence > base:
                if known is None or known.values is None or known.company != state.company:
                    told = Told(True, [], {})
                elif state.values is not None and not told.is_new:
                    changed = {group for group in groups if state.values[group] != known.values[group]}
                    before = {_MEMBERS[group][0]: known.values[group] for group in changed & {*_REMEMBERED}}
                    told = Told(False, sorted({*told.changed} | changed), told.previous | before)
            known = state
        now = self.log[name][-1].values or {}
        kept = {member: value for member, value in told.previous.items() if member}
        return told._replace(previous=kept) if now else told

    async def read(self, reader: Reader, pages: int) -> None:
        """Let a reader read some pages, and compare each entry."""
        if not reader.token:
            lines = await self.feed.snapshot("listings", reader.key)
            reader.token, reader.bases = lines[0]["token"], (0,)
            reader.position = (await self.feed.bench.mark(LISTING)).sequence
            reader.copy = {line["id"]: line["record"] for line in lines[1:-1]}
        for _ in range(pages):
            page = await self.feed.json(
                "changes", reader.key, since=reader.token, page_size=reader.size, **reader.filters
            )
            for entry in page["changes"]:
                self.compare(reader, entry)
            reader.token = page["next"]
            if page["at_end"]:
                mark = (await self.feed.bench.mark(LISTING)).sequence
                hidden = any(state.sequence > mark for states in self.log.values() for state in states)
                if mark > reader.position:  # else it read nothing
                    reader.bases = (*reader.bases, mark) if hidden else (mark,)
                reader.position = mark
                return

    def compare(self, reader: Reader, entry: JsonObject) -> None:
        name = entry["id"]
        if "reason" in entry:
            reader.copy.pop(name, None)
            return
        reader.copy[name] = entry["record"]
        told = Told("changed" not in entry, sorted(entry.get("changed", [])), entry.get("previous", {}))
        acceptable = [self.expected(name, base, reader.groups) for base in reader.bases]
        assert told in acceptable, (told, acceptable, self.log[name], reader)
        self.named += len(told.changed)

    async def compare_copies(self, readers: list[Reader]) -> None:
        for reader in readers:
            await self.read(reader, 1_000)
            members = [_MEMBERS[group][0] for group in reader.groups]
            live = {
                name: {member: document["record"][member] for member in members}
                for name, document in (await self.feed.bench.served(LISTING)).items()
                if not document["deleted"] and document["company"] in reader.companies
            }
            copied = {name: {member: record[member] for member in members} for name, record in reader.copy.items()}
            assert copied == live, reader


@pytest.fixture
async def feed(bench: Bench) -> AsyncIterator[FeedClient]:
    lines: Any = {COMPANY: [company(key) for key in "ab"], LISTING: []}
    assert (await bench.build(lines)).exit_code == 0
    async with serve_feed(bench, grants=_GRANTS) as feed:
        yield feed


async def test_readers_are_told_what_a_log_of_all_states_says(
    feed: FeedClient, amount: Callable[[int, int], int]
) -> None:
    named = 0
    for seed in range(amount(3, 500)):
        chance = random.Random(seed)  # noqa: S311 - repeatable
        run = Run(feed, chance)
        await run.rebuild()
        await run.write_log()
        readers = [
            Reader(key, size, filters)
            for key, size, filters in (
                ("a", 200, {}),
                ("a", 2, {}),
                ("ab", 1, {}),
                ("poor", 200, {}),
                ("a", 200, {"changed": "price,status"}),
                ("ab", 1, {"changed": "price"}),
            )
        ]
        for _ in range(60):
            match chance.choice(("update",) * 5 + ("read",) * 9 + ("rebuild", "killed", "killed", "roll back")):
                case "update":
                    await run.update()
                case "rebuild":
                    await run.rebuild()
                case "killed":
                    await run.killed()
                case "roll back":
                    await run.roll_back(readers)
                case _:
                    for reader in chance.sample(readers, 3):
                        await run.read(reader, chance.choice((1, 2, 100)))
            await run.write_log()
        await run.update()
        await run.write_log()
        await run.compare_copies(readers)
        named += run.named
    assert named > 30
    print(f"{named:,} groups named")
