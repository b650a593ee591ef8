"""Honest keys that walk all the while, in a process of their own: `python -m tests.siege.honest_readers FILE`.

The plan is read from standard input. Each phase is announced by a line on standard output; the observations go to FILE.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import uvloop

from tests.simulation.oracle import ExpectedFeeds, FeedWalkSpec, PageOracle
from tests.simulation.readers import reading
from tests.simulation.requests import GOOD, RequestTotals

_PAUSE_SECONDS = 0.1
_PAGE_SIZE = 50
# Answers in a pause are not counted: the service has just started, or what a siege left behind still ends.
PEACE, SIEGE, PAUSE = "peace", "siege", "pause"


class HonestPlan(msgspec.Struct, frozen=True):
    """The service, a key per reader, the company they walk, its source, and the phases with their length in seconds."""

    url: str
    keys: list[str]
    company: str
    source: str
    phases: list[tuple[str, float]]


class HonestReport(msgspec.Struct):
    """What the readers observed, by phase; answers in seconds."""

    answers: dict[str, list[float]] = msgspec.field(default_factory=lambda: {PEACE: [], SIEGE: [], PAUSE: []})
    failures: dict[str, dict[str, int]] = msgspec.field(default_factory=lambda: {PEACE: {}, SIEGE: {}, PAUSE: {}})
    walks: int = 0
    wrong: int = 0  # pages and walks that differ from the source
    longest_gap: float = 0.0  # seconds without a good answer to any reader


async def _read(plan: HonestPlan) -> HonestReport:
    """Walk through all phases; all of a phase's requests end before the next is announced."""
    walk = FeedWalkSpec(company=plan.company, market_status="all", page_size=_PAGE_SIZE)
    found, tally, judge = HonestReport(), RequestTotals(), PageOracle([ExpectedFeeds.of(Path(plan.source))])
    for phase, seconds in plan.phases:
        print(phase, flush=True)
        before = len(tally.seen)
        async with AsyncExitStack() as stack:
            readers = [
                await stack.enter_async_context(reading(plan.url, key, [walk], judge, _PAUSE_SECONDS, tally))
                for key in plan.keys
            ]
            await asyncio.sleep(seconds)
        found.walks += sum(reader.walks for reader in readers)
        for request in tally.seen[before:]:
            if request.kind == GOOD:
                found.answers[phase].append(request.seconds)
            else:
                failures = found.failures[phase]
                failures[request.kind] = failures.get(request.kind, 0) + 1
    found.wrong, found.longest_gap = judge.wrong, tally.outage
    return found


if __name__ == "__main__":
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=HonestPlan)
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(uvloop.run(_read(plan))))
