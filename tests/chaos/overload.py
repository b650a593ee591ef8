"""Overload: page requests at four times the capacity, and the figures computed from them."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections import Counter
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
from tests.simulation.requests import percentile
from tests.simulation.results import ScenarioResult
from tests.simulation.services import LoadedCluster, RunningServe

_PAGE_SIZE = 200
_TIMES = 4
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
        return [
            sent
            for sent in self.report.sent
            if sent.kind == kind and outcome in {None, sent.outcome} and stretch in {None, sent.stretch}
        ]

    def times(self, kind: str, outcome: str) -> list[float]:
        """Return the response times in the first stretch, in seconds."""
        return [sent.took for sent in self.of(kind, outcome, 0)]

    def joined(self, other: LoadRun) -> LoadRun:
        ours, theirs = self.report, other.report
        report = LoadReport(ours.sent + theirs.sent, ours.processor_seconds + theirs.processor_seconds)
        return LoadRun(report, max(self.peak, other.peak), self.service_seconds + other.service_seconds)


async def load(
    stage: LoadedCluster, serving: RunningServe, *stretches: LoadPhase, page_size: int = _PAGE_SIZE
) -> LoadRun:
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
            LoadPhase(seconds, _TIMES * capacity, _SHOWS_A_SECOND),
            LoadPhase(seconds / 3, capacity / 2, _SHOWS_A_SECOND),
        )
        # A machine that has become slower or faster meanwhile does not count.
        once = before.joined(await load(stage, serving, nominal))
    return _outcome(seconds, capacity, once, many)


def _outcome(seconds: float, capacity: float, once: LoadRun, many: LoadRun) -> ScenarioResult:
    sent = [*once.report.sent, *many.report.sent]
    goodput = len(many.of(PAGE, OK, 0)) / max(1, len(once.of(PAGE, OK, 0)))
    page, calm = (statistics.median(run.times(PAGE, OK)) for run in (many, once))
    refusals = many.times(PAGE, REFUSED)
    refusal = percentile(refusals, 99)
    ends = [sent.due + sent.took - seconds for sent in many.of(PAGE, stretch=1) if sent.outcome != OK]
    recovered = max([0.0, *ends])  # how long after the overload's end a page was last refused or failed
    shows = many.of(SHOW)
    after, before = (percentile(run.times(SHOW, OK), 99) * 1e3 for run in (many, once))
    lost = len(shows) - len(many.of(SHOW, OK))
    costs = [run.service_seconds / max(1, len(run.of(PAGE, OK))) * 1e3 for run in (many, once)]
    counts = Counter(f"{one.kind}s {one.outcome}" for one in many.report.sent)
    figures = {
        "capacity": f"{capacity:.0f} pages/s",
        "goodput": f"{goodput:.2f} times that at capacity",
        "page": f"median {page * 1e3:.0f} ms, at capacity {calm * 1e3:.0f} ms",
        "refusal": f"p50 {percentile(refusals, 50) * 1e3:.1f} ms, p99 {refusal * 1e3:.1f} ms",
        "memory": f"{once.peak / _MEGABYTE:.0f} MB, then {many.peak / _MEGABYTE:.0f} MB",
        "recovery": f"{recovered:.2f} s",
        "shows": f"p99 {after:.0f} ms, at capacity {before:.0f} ms; {lost} of {len(shows)} failed",
        "outcomes": ", ".join(f"{count} {name}" for name, count in counts.items()),
        "CPU": f"generator {many.report.processor_seconds[0] / seconds:.0%} of a core; "
        f"service {costs[0]:.1f} ms per successful page, at capacity {costs[1]:.1f} ms",
        "generator delay": f"p99 {percentile([one.late for one in many.report.sent], 99) * 1e3:.1f} ms",
    }
    pages = [*once.of(PAGE), *many.of(PAGE)]
    holds = {
        "Goodput is below 90 % of the 1 x run.": goodput >= 0.9,
        "The p99 of refusals is not below a tenth of the median of pages.": refusal < page / 10,
        "Memory grew by 10 % or more.": many.peak / once.peak - 1 < 0.1,
        "It took longer than 1 s to recover.": recovered < 1.0,
        "A show failed.": all(show.outcome == OK for show in shows),
        "An answer was wrong.": all(page.outcome in {OK, REFUSED} for page in pages),
    }
    moments = sorted(good.due + good.late + good.took for good in many.of(PAGE, OK))
    return ScenarioResult(
        fault=f"page requests at {_TIMES} times the capacity for {seconds:g} s",
        requests=len(sent),
        wrong=sum(one.outcome == WRONG for one in sent),
        failed=sum(one.outcome in {FAILED, REFUSED} for one in sent),
        outage_seconds=max((later - earlier for earlier, later in pairwise(moments)), default=0.0),
        figures=figures,
        violations=[sentence for sentence, does_hold in holds.items() if not does_hold],
    )
