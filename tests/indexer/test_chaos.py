"""Whatever happens to bulk requests, the index ends as the source says, and every line is accounted for."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from indexer import Stage, retry
from mappings import COMPANY, TEAM
from tests.indexer.changing_sources import NEWER, SECOND, bad_numbers, first, live_changes, second, source, team
from tests.indexer.chaos_proxy import REASON, ChaosProxy
from tests.indexer.ends import accounted, beside, contents, counts, kept, left_over, lies_behind
from tests.indexer.sending import proxied

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer import ResourceReport, Summary
    from tests.indexer.changing_sources import Lines
    from tests.indexer.conftest import Bench

COUNT = 150
TIMEOUT_SECONDS, SLOW_SECONDS = 3.0, 4.0
TUNED: dict[str, Any] = {"bulk_documents": 10, "shrink_limit": 0.5, "dead_letter_limit": 0.5, "retry_seconds": 60.0}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as one would, a hundred times faster."""
    monkeypatch.setattr(retry, "_FIRST_SECONDS", 0.005)
    monkeypatch.setattr(retry, "_LONGEST_SECONDS", 0.6)


def poisoned(lines: Lines, name: str) -> Lines:
    """Return lines with some new teams between them that the proxy refuses."""
    poison: Lines = [team(f"{name}{n}", "POISON", NEWER) for n in range(3)]
    return [poison[0], *lines[:40], poison[1], *lines[40:], poison[2]]


def check_report(report: ResourceReport, lines: Lines, undisturbed: ResourceReport) -> None:
    """Check that each line is accounted for, and that the dead letters are the bad lines and the poison."""
    assert report.refusal is None
    assert accounted(vars(report)) == report.read == len(lines)
    assert report.dead_letters is not None
    letters = [orjson.loads(line) for line in Path(report.dead_letters).read_bytes().splitlines()]
    poison = {n: orjson.dumps(line).decode() for n, line in enumerate(lines, 1) if b"POISON" in orjson.dumps(str(line))}
    assert sorted(letter["line"] for letter in letters) == sorted([*bad_numbers(lines), *poison])
    assert {n["line"]: n["payload"] for n in letters if n["reason"] == REASON} == poison
    if report.stage is Stage.SWAPPED:  # of updates the batches decide what supersedes what
        expected = counts(vars(undisturbed))
        assert counts(vars(report)) == expected | {"read": len(lines), "dead": expected["dead"] + len(poison)}


async def check_index(bench: Bench, undisturbed: Bench) -> None:
    """Check that both hold the same, under stamps that are published, and that nothing is left over."""
    assert contents(await kept(bench)) == contents(await kept(undisturbed))
    assert lies_behind(await kept(bench), await bench.mark(TEAM))
    assert await left_over(bench) == []


async def chaos(bench: Bench, seed: int, expected: list[ResourceReport], ends: list[Bench]) -> dict[str, int]:
    """Do everything through a proxy and compare each step with what an undisturbed run came to."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    proxy = ChaosProxy(bench.connection.url[0], chance, share_broken=0.4, slow_seconds=SLOW_SECONDS)
    async with proxied(bench, proxy, TIMEOUT_SECONDS) as client:
        through = replace(bench, client=client)
        for number, work in enumerate(WORK):
            proxy.is_slow = 4 * number == seed % 16
            lines = poisoned(work_lines(number), f"poison{number}-")
            report = (await work(through, lines)).of("teams")
            check_report(report, lines, expected[number])
            await check_index(bench, ends[number])
    return proxy.broken


async def build(bench: Bench, lines: Lines) -> Summary:
    """Build from a source of these teams."""
    source(bench, lines)
    return await bench.build_folder([COMPANY, TEAM], **TUNED)


async def update(bench: Bench, lines: Lines) -> Summary:
    """Apply these teams to what is live."""
    return await bench.update({TEAM: lines}, **TUNED)


# A first build, updates of what is live, a rebuild over it, and all its lines as updates once more.
WORK: list[Callable[[Bench, Lines], Any]] = [build, update, build, update]


def work_lines(number: int) -> Lines:
    """Return the lines of one step."""
    between: Lines = [*live_changes(COUNT), b"{", team("last", "last", SECOND)]
    again: Lines = [*second(COUNT), *[team(n, "third", "2026-01-09T00:00:00Z") for n in range(0, COUNT, 7)]]
    return [first(COUNT), between, second(COUNT), again][number]


async def test_chaos_loses_and_invents_nothing(bench: Bench, amount: Callable[[int, int], int]) -> None:
    expected, ends, broken = [], [], dict[str, int]()
    for until in range(len(WORK)):
        ends.append(beside(bench, f"undisturbed{until}-"))
        reports = [(await WORK[number](ends[-1], work_lines(number))).of("teams") for number in range(until + 1)]
        expected.append(reports[-1])
    for seed in range(amount(2, 50)):
        corner = beside(bench, f"chaos{seed}-")
        try:
            met = await chaos(corner, seed, expected, ends)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        broken = {way: broken.get(way, 0) + met.get(way, 0) for way in {*broken, *met}}
    assert len(broken) == 7, broken


@pytest.mark.parametrize("held", [b'"vanished"', b'"clock":0,'], ids=["of the comparison", "of the loading"])
async def test_what_arrives_behind_its_own_repetition_takes_no_stamp_away(bench: Bench, held: bytes) -> None:
    await build(bench, [team(n, "first", SECOND) for n in range(30)])
    proxy = ChaosProxy(bench.connection.url[0], random.Random(0), share_broken=0.0, slow_seconds=0.0)  # noqa: S311
    proxy.late = held
    async with proxied(bench, proxy, TIMEOUT_SECONDS) as client:
        through = replace(bench, client=client)
        report = (await build(through, [team(n, "second", NEWER) for n in range(20)])).of("teams")
    assert (report.refusal, report.vanished) == (None, 10)
    assert proxy.late is None
    assert lies_behind(await kept(bench), await bench.mark(TEAM))
