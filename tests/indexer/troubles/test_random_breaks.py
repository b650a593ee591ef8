"""The list is the difference between a source that breaks and heals at random and what is served, also after kills."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from indexer.troubles import troubles
from mappings import COMPANY, LISTING
from tests.indexer.conftest import Bench
from tests.indexer.faults.process_killer import KillPoint, killer
from tests.records import deletion, envelope, write

_UNREADABLE = "Sold STC"
_STATUSES = ("Active", "Pending", "Sold", None, *[_UNREADABLE] * 4)


@dataclass
class World:
    """A source and what must be served of it: the newest status of each record, and the newest that can be read.

    The status of a deleted record is None, and "Other" that of one that was withdrawn.
    """

    chance: random.Random
    records: int
    moment: int = 0
    source: dict[str, str | None] = field(default_factory=dict)
    readable: dict[str, str | None] = field(default_factory=dict)
    lines: dict[str, dict[str, Any]] = field(default_factory=dict)  # the newest of each record

    def change(self) -> dict[str, Any]:
        """Change a record of the source and return its line."""
        name = f"r{self.chance.randrange(self.records)}"
        self.moment += 1
        at = f"2026-01-02T{self.moment // 3600:02}:{self.moment // 60 % 60:02}:{self.moment % 60:02}Z"
        self.source[name] = status = self.chance.choice(_STATUSES)
        if status != _UNREADABLE:
            self.readable[name] = status
        record = {"PlatformListingId": name, "Status": status}
        self.lines[name] = deletion(LISTING, name, at) if status is None else envelope(LISTING, record, updated_at=at)
        return self.lines[name]

    def withdraw(self) -> None:
        """Take the listings off the market that are not as the source says."""
        for name in self.difference:
            if self.readable.get(name) in {"Active", "Pending"}:
                self.readable[name] = "Other"

    @property
    def difference(self) -> set[str]:
        return {name for name, status in self.source.items() if status == _UNREADABLE}


async def statuses(bench: Bench) -> dict[str, str]:
    await bench.client.indices.refresh(index=bench.connection.alias(LISTING))
    documents = (await bench.served(LISTING)).items()
    return {name: found["record"]["Status"] for name, found in documents if not found["deleted"]}


async def nothing() -> None:
    """Do nothing between two runs."""


@pytest.mark.seeds(1, 3)
async def test_the_list_is_the_difference_between_source_and_index(
    bench: Bench, seed: int, amount: Callable[[int, int], int]
) -> None:
    world = World(random.Random(seed), records=amount(20, 200))  # noqa: S311 - repeatable
    folder, most, longest = bench.folder.parent / "turn", amount(8, 40), 0
    await bench.build({COMPANY: [envelope(COMPANY)], LISTING: []})
    async with killer(bench, seed) as doing:
        for turn in range(amount(8, 100)):
            before = dict(world.readable)
            changes = [world.change() for _ in range(world.chance.randint(1, most))]
            kill = KillPoint("", world.chance.randint(1, 30), is_effective=world.chance.random() < 0.5)
            kills = [kill] if world.chance.random() < 0.5 else []
            if world.chance.random() < 0.3:
                # A full source has the newest line of a record alone: states in between are in no source.
                world.readable |= {name: before.get(name) for name in world.difference}
                write(folder, {COMPANY: [envelope(COMPANY)], LISTING: world.lines.values()})
                await doing.run(kills, "reindex", str(folder), "listings", "--force", between=nothing)
            else:
                write(folder, {COMPANY: [], LISTING: changes})
                await doing.run(kills, "update", str(folder), between=nothing)
            if world.chance.random() < 0.3:
                kills = [kill] if world.chance.random() < 0.5 else []
                await doing.run(kills, "troubles", "--withdraw", between=nothing, BROKERAGE_TROUBLE_HOURS="0")
                world.withdraw()
            longest = max(longest, len(world.difference))
            assert {entry.trouble.id for entry in await troubles(bench.engine())} == world.difference, turn
            expected = {name: status for name, status in world.readable.items() if status is not None}
            assert await statuses(bench) == expected, turn
    assert doing.kills
    print(f"\n{world.records} records, {turn + 1} runs, {doing.kills} kills, up to {longest} on the list.")
