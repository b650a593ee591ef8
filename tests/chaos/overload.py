"""Overload: page requests at four times the capacity, and the figures computed from them."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from bench.accounting import forget_peaks, peak_bytes, processor_seconds
from bench.questions import COMPANY
from tests.chaos.load_generator import (
    FAILED,
    OK,
    PAGE,
    REFUSED,
    SHOW,
    WRONG,
    LoadPhase,
    LoadPlan,
    LoadReport,
    SentRequest,
)
from tests.chaos.loaded_service import LoadedCluster, RunningServe
from tests.chaos.scenario_result import ScenarioResult

PAGE_SIZE = 200
TIMES = 4
# Requests in addition to the pages, at all times.
_SHOWS_A_SECOND = 10.0
# Enough to fill every slot of one worker.
_CLIENTS = 32
_MEGABYTE = 1024**2


@dataclass(frozen=True)
class LoadRun:
    """The requests of one run of the generator, and the resource usage of the service."""

    report: LoadReport
    peak: int  # the most memory that the service held, in bytes
    service_seconds: float  # of the processor

    def of(self, kind: str, outcome: str | None = None, stretch: int | None = None) -> list[SentRequest]:
        """Return the requests of a kind."""
        return [
            sent
            for sent in self.report.sent
            if sent.kind == kind and outcome in {None, sent.outcome} and stretch in {None, sent.stretch}
        ]

    def joined(self, other: LoadRun) -> LoadRun:
        """Return this and another run combined."""
        report = LoadReport(
            [*self.report.sent, *other.report.sent], [*self.report.processor_seconds, *other.report.processor_seconds]
        )
        return LoadRun(report, max(self.peak, other.peak), self.service_seconds + other.service_seconds)


async def load(
    stage: LoadedCluster, serving: RunningServe, *stretches: LoadPhase, page_size: int = PAGE_SIZE
) -> LoadRun:
    """Run the generator with these stretches."""
    plan = LoadPlan(serving.url, stage.key, COMPANY, page_size, list(stretches))
    root = {"service": serving.process.pid}
    forget_peaks(serving.process.pid)
    before = processor_seconds(root)
    with tempfile.NamedTemporaryFile() as file:
        generator = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.chaos.load_generator", file.name, stdin=asyncio.subprocess.PIPE
        )
        await generator.communicate(msgspec.json.encode(plan))
        if generator.returncode:
            raise RuntimeError(f"The generator ended with {generator.returncode}.")
        used = processor_seconds(root)["service"] - before["service"]
        report = msgspec.json.decode(file.read(), type=LoadReport)
    return LoadRun(report, peak_bytes(serving.process.pid), used)


async def overload(stage: LoadedCluster, seconds: float = 30.0, **settings: Any) -> ScenarioResult:
    """Measure the capacity; then send it, four times as much, half, and the capacity again.

    `settings` are those of the service. All figures that must hold are ratios between these.
    """
    async with stage.service(**settings) as serving:
        warming = LoadPhase(seconds=max(2.0, seconds / 5), clients=_CLIENTS)
        closed = await load(stage, serving, warming, warming)
        capacity = len(closed.of(PAGE, OK, 1)) / warming.seconds
        nominal = LoadPhase(seconds / 2, capacity, _SHOWS_A_SECOND)
        before = await load(stage, serving, nominal)
        many = await load(
            stage,
            serving,
            LoadPhase(seconds, TIMES * capacity, _SHOWS_A_SECOND),
            LoadPhase(seconds / 3, capacity / 2, _SHOWS_A_SECOND),
        )
        # A machine that has become slower or faster meanwhile does not count.
        once = before.joined(await load(stage, serving, nominal))
    return _outcome(seconds, capacity, once, many)


def _outcome(seconds: float, capacity: float, once: LoadRun, many: LoadRun) -> ScenarioResult:
    sent = [*once.report.sent, *many.report.sent]
    figures, violations = _judged(seconds, once, many)
    return ScenarioResult(
        fault=f"page requests at {TIMES} times the capacity for {seconds:g} s",
        requests=len(sent),
        wrong=sum(each.outcome == WRONG for each in sent),
        failed=sum(each.outcome in {FAILED, REFUSED} for each in sent),
        outage_seconds=longest_gap(many.of(PAGE, OK)),
        figures={"capacity": f"{capacity:.0f} pages/s", **figures},
        violations=violations,
    )


def _judged(seconds: float, once: LoadRun, many: LoadRun) -> tuple[dict[str, str], list[str]]:
    goodput = len(many.of(PAGE, OK, 0)) / max(1, len(once.of(PAGE, OK, 0)))
    page = statistics.median(times(many.of(PAGE, OK, 0)))
    refusal = percentile(times(many.of(PAGE, REFUSED, 0)), 99)
    growth = many.peak / once.peak - 1
    recovered = recovery(many, seconds)
    calm = statistics.median(times(once.of(PAGE, OK, 0)))
    figures = {
        "goodput": f"{goodput:.2f} times that at capacity",
        "page": f"median {page * 1e3:.0f} ms, at capacity {calm * 1e3:.0f} ms",
        "refusal": f"p50 {percentile(times(many.of(PAGE, REFUSED, 0)), 50) * 1e3:.1f} ms, p99 {refusal * 1e3:.1f} ms",
        "memory": f"{once.peak / _MEGABYTE:.0f} MB, then {many.peak / _MEGABYTE:.0f} MB",
        "recovery": f"{recovered:.2f} s",
        "shows": shows_text(once, many),
        "outcomes": ", ".join(f"{count} {name}" for name, count in outcomes(many).items()),
        "CPU": processor_text(seconds, once, many),
        "generator delay": f"p99 {percentile([each.late for each in many.report.sent], 99) * 1e3:.1f} ms",
    }
    holds = {
        "Goodput is below 90 % of the 1 x run.": goodput >= 0.9,
        "The p99 of refusals is not below a tenth of the median of pages.": refusal < page / 10,
        "Memory grew by 10 % or more.": growth < 0.1,
        "It took longer than 1 s to recover.": recovered < 1.0,
        "A show failed.": all(each.outcome == OK for each in many.of(SHOW)),
        "An answer was wrong.": all(each.outcome in {OK, REFUSED} for each in [*once.of(PAGE), *many.of(PAGE)]),
    }
    return figures, [sentence for sentence, does_hold in holds.items() if not does_hold]


def outcomes(done: LoadRun) -> Counter[str]:
    """Return how many requests had each outcome."""
    return Counter(f"{each.kind}s {each.outcome}" for each in done.report.sent)


def shows_text(once: LoadRun, many: LoadRun) -> str:
    """Return the p99 of shows at both loads, and how many of them failed."""
    before, after = (percentile(times(each.of(SHOW, OK, 0)), 99) * 1e3 for each in (once, many))
    failed = len(many.of(SHOW)) - len(many.of(SHOW, OK))
    return f"p99 {after:.0f} ms, at capacity {before:.0f} ms; {failed} of {len(many.of(SHOW))} failed"


def processor_text(seconds: float, once: LoadRun, many: LoadRun) -> str:
    """Return the CPU usage of generator and service in the overload, and the service's per successful page."""
    each = [done.service_seconds / max(1, len(done.of(PAGE, OK))) * 1e3 for done in (many, once)]
    return (
        f"generator {many.report.processor_seconds[0] / seconds:.0%} of a core; "
        f"service {each[0]:.1f} ms per successful page, at capacity {each[1]:.1f} ms"
    )


def recovery(many: LoadRun, ended: float) -> float:
    """Return how long after the overload's end, in seconds, a page was last refused or failed."""
    return max([0.0, *(each.due + each.took - ended for each in many.of(PAGE, stretch=1) if each.outcome != OK)])


def longest_gap(good: Sequence[SentRequest]) -> float:
    """Return the longest time between two successful responses, in seconds."""
    moments = sorted(each.due + each.late + each.took for each in good)
    return max((after - before for before, after in pairwise(moments)), default=0.0)


def times(sent: Sequence[SentRequest]) -> list[float]:
    """Return the response times, in seconds."""
    return [each.took for each in sent]


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that so many percent do not exceed; 0 of none."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)] if values else 0.0
