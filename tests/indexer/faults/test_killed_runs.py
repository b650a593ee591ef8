"""Builds and updates that are killed repeatedly reach the same state as undisturbed ones.

That loaders end with their command is checked, too: until they have, the standard error that they share stays open.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from cluster.control_index import Mark
from mappings import COMPANY, TEAM
from tests.indexer.changing_sources import Lines, bad_numbers, changes, first, live_changes, second, source
from tests.indexer.conftest import Bench
from tests.indexer.faults.end_state import (
    StoredTeam,
    accounted,
    contents,
    counts,
    is_covered_by_mark,
    leftovers,
    second_bench,
    stamped_since,
    stored_teams,
)
from tests.indexer.faults.process_killer import KillPoint, killer

Amount = Callable[[int, int], int]

KILLS_A_ROUND = 3
BULK = 25
TUNED: dict[str, Any] = {"bulk_documents": BULK, "shrink_limit": 0.5}
SET = {"BROKERAGE_BULK_DOCUMENTS": str(BULK), "BROKERAGE_SHRINK_LIMIT": "0.5"}


def build_kills(chance: random.Random, bulks: int, _seed: int) -> list[KillPoint]:
    """Return when to kill a build of that many bulk requests: while it reads, after a stage, and at some time."""
    part = max(2, bulks // 2)
    return [
        KillPoint("reading", chance.randint(part // 2, part), only_bulks=True, is_effective=chance.random() < 0.5),
        chance.choice(
            [
                KillPoint("reading", chance.randint(1, 2 * part), is_effective=chance.random() < 0.5),
                KillPoint("", seconds=chance.uniform(0.5, 3)),
            ]
        ),
        KillPoint(
            chance.choice(["comparing", "finishing", "swapping"]),
            chance.randint(1, 12),
            is_effective=chance.random() < 0.5,
        ),
    ]


def loader_kills(chance: random.Random, _bulks: int, seed: int) -> list[KillPoint]:
    """Return when to kill the command while it reads, and then when to kill its loaders or, every other time, itself.

    A run that was killed after it had loaded everything has no loaders when it resumes.
    """
    reading = KillPoint("reading", chance.randint(24, 36), only_bulks=True, is_effective=chance.random() < 0.5)
    later = KillPoint(chance.choice(["comparing", "finishing", "swapping"]), chance.randint(1, 12))
    return [reading, later if seed % 2 else KillPoint("reading", chance.randint(2, 6), only_bulks=True, victims=3)]


class KilledBuild(NamedTuple):
    """A build, the number of its teams and of repetitions as `amount` takes them, and when it is killed."""

    is_first: bool
    teams: int
    repetitions: int
    kills: Callable[[random.Random, int, int], list[KillPoint]]
    options: tuple[str, ...] = ()


BUILDS = {
    "first build": KilledBuild(is_first=True, teams=1_500, repetitions=7, kills=build_kills),
    "rebuild": KilledBuild(is_first=False, teams=1_500, repetitions=7, kills=build_kills),
    "rebuild by processes": KilledBuild(False, 1_200, 24, loader_kills, ("--processes", "2")),
}


async def started(bench: Bench, count: int) -> None:
    """Build the first generation and apply the updates before the next source; its dead letters are discarded."""
    source(bench, first(count))
    await bench.build_folder([COMPANY, TEAM])
    await bench.update({TEAM: live_changes(count)})
    shutil.rmtree(bench.settings.dead_letter_folder)


async def nothing() -> None:
    """Do nothing between two runs."""


def check_letters(report: dict[str, Any], lines: Lines, folder: str, *, is_only: bool) -> None:
    """Check that each invalid line is reported once: in the file of the report and, if `is_only`, only there."""
    written = Path(report["dead_letters"])
    files = sorted(Path(folder).glob("teams-*.ndjson")) if is_only else [written]
    letters = [orjson.loads(line)["line"] for file in files for line in file.read_bytes().splitlines()]
    assert files == [written]
    assert letters == bad_numbers(lines)
    assert report["dead"] == len(letters)


async def check(bench: Bench, end: dict[str, Any], undisturbed: dict[str, Any], lines: Lines, live: str | None) -> None:
    """Check the report of the last run and that nothing is left over. `live` was live before the first run."""
    assert end["read"] == accounted(end) == len(lines)
    # Killed behind its swap, a build is done: the run after it is another one, of the same source.
    is_same_build = end["previous"] == live
    if is_same_build:
        assert counts(end) == counts(undisturbed)
    check_letters(end, lines, bench.settings.dead_letter_folder, is_only=is_same_build)
    assert await leftovers(bench) == []
    assert is_covered_by_mark(await stored_teams(bench), await bench.mark(TEAM))


def check_stamps(found: dict[str, StoredTeam], mark: Mark, known: dict[str, StoredTeam], expected: list[str]) -> None:
    """Check that exactly the expected teams were stamped, in that order and above the mark.

    `mark` and `known` are of before the first run.
    """
    changed = stamped_since(found, mark)
    assert changed == expected
    assert all(found[name].clock > mark.clock for name in changed)
    same = found.keys() - set(changed)
    assert {name: found[name][2:] for name in same} == {name: known[name][2:] for name in same}


@pytest.mark.parametrize("kind", BUILDS)
async def test_a_build_that_is_killed_ends_like_an_undisturbed_one(bench: Bench, amount: Amount, kind: str) -> None:
    build = BUILDS[kind]
    count, resumed = amount(build.teams, 20_000), list[int]()
    lines, undisturbed = first(count) if build.is_first else second(count), second_bench(bench)

    async def prepare(installation: Bench) -> tuple[Mark, str, dict[str, StoredTeam]] | None:
        """Return what is there before the build, None before a first one."""
        if build.is_first:
            source(bench, lines)
            await installation.build_folder([COMPANY])
            return None
        await started(installation, count)
        live = installation.connection.prefix + await installation.live(TEAM)
        before = await installation.mark(TEAM), live, await stored_teams(installation)
        source(bench, lines)
        return before

    before = await prepare(undisturbed)
    report = (await undisturbed.build_folder([TEAM], **TUNED)).report_for("teams")
    assert report.refusal is None
    expected = await stored_teams(undisturbed)
    for seed in range(amount(1, build.repetitions)):
        installation, chance = second_bench(bench, f"killed{seed}-"), random.Random(seed)  # noqa: S311 - repeatable
        known = await prepare(installation)
        arguments = ("reindex", str(installation.folder), "teams", *build.options)
        async with killer(installation, seed) as doing:
            kills = build.kills(chance, len(lines) // BULK, seed)
            end = (await doing.run(kills, *arguments, between=nothing, **SET)).summary()
        if any(point.victims for point in kills):
            assert [warning for warning in end["warnings"] if "processes that loaded lines ended" in warning]
        await check(installation, end, vars(report), lines, known and known[1])
        found = await stored_teams(installation)
        if known is None or before is None:
            assert found == expected, f"seed {seed}"
        else:
            assert contents(found) == contents(expected), f"seed {seed}"
            check_stamps(found, known[0], known[2], stamped_since(expected, before[0]))
        resumed += doing.resumed
    assert resumed


async def test_an_update_that_is_killed_ends_like_an_undisturbed_one(bench: Bench, amount: Amount) -> None:
    count, resumed = amount(1_500, 20_000), 0
    undisturbed = second_bench(bench)
    await started(undisturbed, count)
    lines = second(count)
    await undisturbed.update({TEAM: lines}, **TUNED)
    expected = await stored_teams(undisturbed)
    for seed in range(amount(1, 7)):
        installation, chance = second_bench(bench, f"killed{seed}-"), random.Random(seed)  # noqa: S311 - repeatable
        await started(installation, count)
        watch = Watch(installation)
        points = [chance.randint(2, len(lines) // BULK // KILLS_A_ROUND) for _ in range(KILLS_A_ROUND)]
        given = [KillPoint("", n, only_bulks=True, is_effective=chance.random() < 0.5) for n in points]
        # A place is kept by then.
        given[1] = KillPoint("", chance.randint(1, 5), only_bulks=True, behind="/_doc/update-")
        async with killer(installation, seed) as doing:
            run = await doing.run(given, "update", str(changes(installation, lines)), between=watch.look, **SET)
        assert doing.kills
        end = run.summary()
        assert accounted(end) == end["read"] == len(lines) - watch.place, f"seed {seed}"
        assert contents(await stored_teams(installation)) == contents(expected), f"seed {seed}"
        await watch.look()
        assert await leftovers(installation) == []
        assert is_covered_by_mark(await stored_teams(installation), await installation.mark(TEAM))
        resumed += watch.place
    assert resumed


class Watch:
    """Checks the live index before each run: every new stamp must be above the mark published before."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._known: dict[str, StoredTeam] = {}
        self._mark: Mark | None = None
        self.place = 0  # the lines that were visible before the last look but one

    async def look(self) -> None:
        """Compare with the previous check."""
        await self._bench.client.indices.refresh(index=self._bench.connection.alias(TEAM))
        found = await stored_teams(self._bench)
        if self._mark is not None:
            stamped = [one for name, one in found.items() if one[2:] != self._known.get(name, one)[2:]]
            stamped += [one for name, one in found.items() if name not in self._known]
            assert all(one.clock > self._mark.clock and one.sequence > self._mark.sequence for one in stamped)
        self._known, self._mark = found, await self._bench.mark(TEAM)
        self.place = await place(self._bench) or self.place


async def place(bench: Bench) -> int:
    """Return how many lines an unfinished update has published, 0 without one."""
    control = bench.connection.control_index
    await bench.client.indices.refresh(index=control)
    found = await bench.client.search(index=control, size=100)
    return sum(hit["_source"]["lines"] for hit in found["hits"]["hits"] if hit["_id"].startswith("update-"))
