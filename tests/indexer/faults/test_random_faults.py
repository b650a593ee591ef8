"""Whatever happens to bulk requests, the index ends as the source says, and every line is accounted for."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import orjson
import pytest

from indexer import ResourceReport, RunStage, RunSummary
from mappings import COMPANY, TEAM
from tests.indexer.bulk_writes import proxied_client
from tests.indexer.changing_sources import (
    BAD,
    NEWER,
    SECOND,
    Lines,
    bad_numbers,
    first,
    live_changes,
    second,
    source,
    team,
)
from tests.indexer.conftest import Bench
from tests.indexer.faults.end_state import (
    accounted,
    contents,
    counts,
    is_covered_by_mark,
    leftovers,
    second_bench,
    stored_teams,
)
from tests.internals import Internals
from tests.network.bulk_proxy import REASON, ChaosProxy

COUNT = 150
TIMEOUT_SECONDS, SLOW_SECONDS = 3.0, 4.0
TUNED: dict[str, Any] = {"bulk_documents": 10, "shrink_limit": 0.5, "dead_letter_limit": 0.5, "retry_seconds": 60.0}


@pytest.fixture(autouse=True)
def short_waits(internals: Internals) -> None:
    """Shorten the backoff to a hundredth."""
    internals(cluster_first_pause_seconds=0.005, cluster_longest_pause_seconds=0.6)


def poisoned(lines: Lines, name: str) -> Lines:
    """Return lines with some new teams inserted that the proxy rejects."""
    poison: Lines = [team(f"{name}{n}", "POISON", NEWER) for n in range(3)]
    return [poison[0], *lines[:40], poison[1], *lines[40:], poison[2]]


def check_report(report: ResourceReport, lines: Lines, undisturbed: ResourceReport) -> None:
    """Check that each line is accounted for, and that the dead letters are the invalid lines and the rejected teams."""
    assert report.refusal is None
    assert accounted(vars(report)) == report.read == len(lines)
    assert report.dead_letters is not None
    letters = [orjson.loads(line) for line in Path(report.dead_letters).read_bytes().splitlines()]
    poison = {n: orjson.dumps(line).decode() for n, line in enumerate(lines, 1) if b"POISON" in orjson.dumps(str(line))}
    assert sorted(letter["line"] for letter in letters) == sorted([*bad_numbers(lines), *poison])
    assert {n["line"]: n["payload"] for n in letters if n["reason"] == REASON} == poison
    if report.stage is RunStage.SWAPPED:  # of updates the batches decide what supersedes what
        expected = counts(vars(undisturbed))
        assert counts(vars(report)) == expected | {"read": len(lines), "dead": expected["dead"] + len(poison)}


async def check_index(bench: Bench, undisturbed: Bench) -> None:
    """Check that both indices are equal, under published stamps, and that nothing is left over."""
    assert contents(await stored_teams(bench)) == contents(await stored_teams(undisturbed))
    assert is_covered_by_mark(await stored_teams(bench), await bench.mark(TEAM))
    assert await leftovers(bench) == []


async def chaos(bench: Bench, seed: int, expected: list[ResourceReport], ends: list[Bench]) -> dict[str, int]:
    """Run every step through a proxy and compare it with an undisturbed run."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    proxy = ChaosProxy(bench.connection.url[0], chance, share_broken=0.4, slow_seconds=SLOW_SECONDS)
    async with proxied_client(bench, proxy, repeat(TIMEOUT_SECONDS)) as client:
        through = replace(bench, client=client)
        for number, work in enumerate(WORK):
            proxy.is_slow = 4 * number == seed % 16
            lines = poisoned(work_lines(number), f"poison{number}-")
            report = (await work(through, lines)).report_for("teams")
            check_report(report, lines, expected[number])
            await check_index(bench, ends[number])
    return proxy.broken


async def build(bench: Bench, lines: Lines) -> RunSummary:
    source(bench, lines)
    return await bench.build_folder([COMPANY, TEAM], **TUNED)


async def update(bench: Bench, lines: Lines) -> RunSummary:
    """Apply these teams to what is live."""
    return await bench.update({TEAM: lines}, **TUNED)


# A first build, updates of what is live, a rebuild over it, and all its lines as updates once more.
WORK: list[Callable[[Bench, Lines], Any]] = [build, update, build, update]


def work_lines(number: int) -> Lines:
    between: Lines = [*live_changes(COUNT), BAD[0], team("last", "last", SECOND)]
    again: Lines = [*second(COUNT), *[team(n, "third", "2026-01-09T00:00:00Z") for n in range(0, COUNT, 7)]]
    return [first(COUNT), between, second(COUNT), again][number]


async def test_chaos_loses_and_invents_nothing(bench: Bench, amount: Callable[[int, int], int]) -> None:
    expected, ends, broken = [], [], dict[str, int]()
    for until in range(len(WORK)):
        ends.append(second_bench(bench, f"undisturbed{until}-"))
        runs = [await WORK[number](ends[-1], work_lines(number)) for number in range(until + 1)]
        expected.append(runs[-1].report_for("teams"))
    for seed in range(amount(2, 50)):
        installation = second_bench(bench, f"chaos{seed}-")
        try:
            met = await chaos(installation, seed, expected, ends)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        broken = {way: broken.get(way, 0) + met.get(way, 0) for way in {*broken, *met}}
    assert len(broken) == 7, broken


@pytest.mark.parametrize("held", [b'"vanished"', b'"clock":0,'], ids=["of the comparison", "of the loading"])
async def test_a_write_that_arrives_after_its_retry_removes_no_stamp(bench: Bench, held: bytes) -> None:
    await build(bench, [team(n, "first", SECOND) for n in range(30)])
    proxy = ChaosProxy(bench.connection.url[0], random.Random(0), share_broken=0.0, slow_seconds=0.0)  # noqa: S311
    proxy.late = held
    async with proxied_client(bench, proxy) as client:
        through = replace(bench, client=client)
        report = (await build(through, [team(n, "second", NEWER) for n in range(20)])).report_for("teams")
    assert (report.refusal, report.vanished) == (None, 10)
    assert proxy.late is None
    assert is_covered_by_mark(await stored_teams(bench), await bench.mark(TEAM))
