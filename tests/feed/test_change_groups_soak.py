"""Random updates, rebuilds, rollbacks, killed runs and readers, compared with a log of all states.

`--soak` plays 500 runs; `-n 2` plays them in two processes.
"""

import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from elastic_transport import AsyncTransport

from indexer.changes.write_session import WriteSession
from indexer.errors import RefusedError
from indexer.generations.candidate import swap_together
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.rollback import rollback
from mappings import COMPANY, LISTING
from mappings.listing import ON_MARKET_STATUSES
from mappings.visibility import ADDRESS_SWITCH, LISTING_SWITCH
from tests.feed.conftest import serve_feed
from tests.feed.feed_client import FeedClient, JsonObject, company, deleted_listing
from tests.feed.test_change_groups import _GRANTS, listing
from tests.indexer.conftest import Bench, bench

__all__ = ["bench"]

_NAMES = tuple(f"L{at}" for at in range(12))
# The members that change here, each with its group and its values.
_MEMBERS: dict[str, tuple[str, tuple[object, ...]]] = {
    "ListPrice": ("price", (100, 200, None)),
    "Status": ("status", ("Active", "Pending", "Sold")),
    "City": ("address", ("Here", "There")),
    "PublicRemarks": ("remarks", ("short", "long")),
    "BuyerCommissionValue": ("commission", ("2", "3")),
    "YearBuilt": ("details", (1990, 2000)),
    ADDRESS_SWITCH: ("display", (None, True, False)),
    LISTING_SWITCH: ("display", (None, True, True, False)),
}
_GROUPS = {group for group, _ in _MEMBERS.values()}
_REMEMBERED = ("ListPrice", "Status")
_PARTS = 2
_STEPS = (*["update"] * 5, *["read"] * 9, "rebuild", "overtaken", "killed", "killed", "roll back")


class Killed(Exception):
    """The run is over."""


class State(NamedTuple):
    """A state of a record; a deleted one has no values."""

    sequence: int
    company: str
    values: JsonObject | None


class Told(NamedTuple):
    is_new: bool
    changed: set[str]
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
    def has_licence(self) -> bool:
        return self.key == "idx"

    @property
    def is_on_market(self) -> bool:
        return "market_status" in self.filters

    @property
    def groups(self) -> set[str]:
        """The groups that it asks for and may see, and those that decide what is in its copy."""
        asked = {*self.filters["changed"].split(",")} if "changed" in self.filters else _GROUPS
        deciding = {"display"} if self.has_licence else set[str]()
        deciding |= {"status"} if self.is_on_market else set()
        return (asked | deciding) - (set() if self.key in {"a", "ab", "idx"} else {"commission"})

    def shown(self, state: State) -> JsonObject | None:
        """Return the values that its copy has of a state, None if it has no such record."""
        values = state.values
        if values is None or state.company not in self.companies:
            return None
        if self.is_on_market and values["Status"] not in ON_MARKET_STATUSES:
            return None
        if self.has_licence and values[LISTING_SWITCH] is False:
            return None
        members = {member for member, (group, _) in _MEMBERS.items() if group in self.groups}
        if self.has_licence and values[ADDRESS_SWITCH] is False:
            members.discard("City")
        return {member: values[member] for member in members}


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
            values = record and {member: record[member] for member in _MEMBERS}
            states.append(State(document["sequence"], document["company"], values))
        for states in self.log.values():
            states.sort(key=lambda state: state.sequence)

    def line(self, name: str) -> JsonObject:
        known = self.source.get(name)
        record = dict(known["record"]) if known else {"PlatformListingId": name}
        for member in self.chance.sample([*_MEMBERS], self.chance.choice((1, 1, 2, 0))):
            record[member] = self.chance.choice(_MEMBERS[member][1])
        of = self.chance.choice("aaaaaab" if known is None or known["platform_company_id"] == "a" else "ba")
        return listing(name, self.second, of, **record)

    async def update(self) -> None:
        self.second += 1
        lines = []
        for name in self.chance.sample(_NAMES, self.chance.randint(1, 8)):
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

    async def overtaken(self, readers: list[Reader]) -> None:
        """Let updates change what a rebuild has read, and readers see them, before it swaps."""

        async def meet(*given: Any) -> None:
            await self.update()
            await self.write_log()
            await self.read(self.chance.choice(readers), 100)
            await swap_together(*given)

        with patch("indexer.rebuild.swap_together", meet):
            await self.rebuild()

    async def killed(self) -> None:
        """Let an update or a rebuild end just before it would publish, or at some request to Elasticsearch."""
        work, of = self.chance.choice([(self.update, WriteSession), (self.rebuild, GenerationLifecycle)])
        name = "publish_mark" if of is WriteSession else "swap"
        ending: Any = patch.object(of, name, side_effect=Killed)
        if self.chance.random() < 0.5:
            left, perform = self.chance.randint(5, 60), AsyncTransport.perform_request

            async def perform_some(*given: Any, **options: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Killed
                return await perform(*given, **options)

            ending = patch.object(AsyncTransport, "perform_request", perform_some)
        try:
            with ending:
                await work()
        except* Killed:
            pass
        await self.feed.bench.client.indices.refresh(index=self.feed.bench.connection.alias(LISTING))

    async def roll_back(self, readers: list[Reader]) -> None:
        try:
            await rollback(self.feed.bench.engine(), LISTING)
        except RefusedError:
            return  # there is no earlier generation
        self.log.clear()
        for reader in readers:
            if reader.token:
                refused = await self.feed.problem("changes", reader.key, since=reader.token, **reader.filters)
                assert refused == (410, "token-expired")
            reader.token = ""

    def expected(self, name: str, base: int, reader: Reader) -> Told:
        """Return what has changed in a record since a sequence, by brute force."""
        known, told = None, Told(False, set(), {})
        for state in self.log[name]:
            if state.sequence > base:
                if known is None or known.values is None or known.company != state.company:
                    told = Told(True, set(), {})
                elif state.values is not None and not told.is_new:
                    differing = {member for member in _MEMBERS if state.values[member] != known.values[member]}
                    changed = {_MEMBERS[member][0] for member in differing} & reader.groups
                    before = {
                        member: known.values[member]
                        for member in _REMEMBERED
                        if member in differing and _MEMBERS[member][0] in changed
                    }
                    told = Told(False, told.changed | changed, told.previous | before)
                    if reader.has_licence and "display" in changed:
                        told = Told(True, set(), {})
            known = state
        values = self.log[name][-1].values
        if reader.has_licence and values and values[ADDRESS_SWITCH] is False:
            told.changed.discard("address")
        return told

    async def read(self, reader: Reader, pages: int) -> None:
        """Let a reader read some pages, and compare each entry."""
        if not reader.token:
            filters = {name: value for name, value in reader.filters.items() if name != "changed"}
            lines = await self.feed.snapshot("listings", reader.key, **filters)
            reader.token, reader.position = lines[0]["token"], (await self.feed.bench.mark(LISTING)).sequence
            reader.bases = (reader.position,)
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
        told = Told("changed" not in entry, {*entry.get("changed", [])}, entry.get("previous", {}))
        acceptable = [self.expected(name, base, reader) for base in reader.bases]
        assert told in acceptable, (told, acceptable, self.log[name], reader)
        is_told_all = reader.key in {"a", "ab"} and not reader.filters
        assert told.is_new or told.changed or is_told_all, (entry, self.log[name], reader)
        self.named += len(told.changed)

    async def compare_copies(self, readers: list[Reader]) -> None:
        for reader in readers:
            await self.read(reader, 1_000)
            shown = {name: reader.shown(states[-1]) for name, states in self.log.items() if states}
            live = {name: values for name, values in shown.items() if values is not None}
            copied = {
                name: {member: record[member] for member in live.get(name, {})} for name, record in reader.copy.items()
            }
            assert copied == live, reader
            if reader.key == "poor":
                assert not any(record["BuyerCommissionValue"] for record in reader.copy.values())


@pytest.fixture
async def feed(bench: Bench) -> AsyncIterator[FeedClient]:
    lines: Any = {COMPANY: [company(key) for key in "ab"], LISTING: []}
    assert (await bench.build(lines)).exit_code == 0
    async with serve_feed(bench, grants=_GRANTS) as feed:
        yield feed


@pytest.mark.parametrize("part", range(_PARTS))
async def test_readers_are_told_what_a_log_of_all_states_says(
    feed: FeedClient, amount: Callable[[int, int], int], part: int
) -> None:
    named = 0
    for seed in range(part, amount(_PARTS, 500), _PARTS):
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
                ("idx", 200, {}),
                ("idx", 1, {"changed": "price,address"}),
                ("poor", 2, {"changed": "price,details"}),
                ("ab", 2, {"changed": "price", "market_status": "on-market"}),
            )
        ]
        for _ in range(40):
            match chance.choice(_STEPS):
                case "update":
                    await run.update()
                case "rebuild":
                    await run.rebuild()
                case "overtaken":
                    await run.overtaken(readers)
                case "killed":
                    await run.killed()
                case "roll back":
                    await run.roll_back(readers)
                case _:
                    for reader in chance.sample(readers, 3):
                        await run.read(reader, chance.choice((1, 100, 100)))
            await run.write_log()
        await run.update()
        await run.write_log()
        await run.compare_copies(readers)
        named += run.named
    assert named
    print(f"{named:,} groups named")
