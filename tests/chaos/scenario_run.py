"""A running scenario: its own service, its consumers, and its notes for the report."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.expected_pages import FeedWalkSpec
from tests.chaos.feed_readers import FeedReaders, reading
from tests.chaos.loaded_service import RunningServe
from tests.chaos.page_oracle import PageOracle
from tests.chaos.request_totals import RequestTotals
from tests.chaos.scenario_cluster import ScenarioCluster
from tests.chaos.scenario_result import ScenarioResult
from tests.chaos.walk_specs import mixed_walks
from tests.waiting import until

_COMPLAINTS = re.compile(r"^.*\b(?:ERROR|CRITICAL)\b.*$|^Traceback .*$|^.*\bfailed$", re.MULTILINE)
# What the service logs if a check of Elasticsearch takes longer than two seconds.
_LATE_CHECK = "it is unreachable"


@dataclass
class ScenarioRun:
    """The service, its consumers, and the findings."""

    ground: ScenarioCluster
    serving: RunningServe
    readers: FeedReaders
    figures: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @property
    def tally(self) -> RequestTotals:
        """The requests of the consumers."""
        return self.readers.tally

    def must(self, holds: bool, sentence: str) -> None:
        """Note a violation unless something holds."""
        if not holds:
            self.violations.append(sentence)

    def timely(self, holds: bool, sentence: str) -> None:
        """Do the same for a time limit, if those are checked."""
        self.must(holds or not self.ground.extent.is_timed, sentence)

    def unfailing(self, what: str) -> None:
        """Require that no request fails, and check the duration if times are checked."""
        failures = self.tally.failures
        late = failures.pop("504", 0)
        self.must(not failures, f"{what}: requests failed")
        self.timely(not late, f"{what}: {late} requests took too long")

    async def read(self, seconds: float) -> tuple[float, float]:
        """Let the consumers read for some time; return when it started and ended."""
        began = time.monotonic()
        await asyncio.sleep(seconds)
        return began, time.monotonic()

    async def read_enough(self) -> None:
        """Let the consumers read until there were as many requests as the extent says."""
        with suppress(TimeoutError):
            await until(lambda: len(self.tally.seen) >= self.ground.extent.least)

    def punctual(self) -> None:
        """Require that no response takes longer than the deadline plus 300 ms."""
        deadline = self.ground.extent.deadline
        self.figures["slowest response"] = f"{self.tally.slowest:.2f} s (deadline {deadline:g} s)"
        slowest = self.tally.slowest
        self.timely(slowest <= deadline + 0.3, f"an answer took {slowest:.2f} s, the deadline is {deadline:g} s")

    def outcome(self, fault: str) -> ScenarioResult:
        """Return the row of the report."""
        tally, judge = self.tally, self.readers.judge
        self.must(not tally.untold, f"{tally.untold} refusals did not say when to come back")
        self.must(bool(self.readers.walks), "no walk came to its end")
        wrong = [f"{judge.wrong} wrong answers"] if judge.wrong else []
        kinds = {"failed": ", ".join(f"{kind}: {count}" for kind, count in sorted(tally.failures.items()))}
        return ScenarioResult(
            fault=fault,
            requests=len(tally.seen),
            wrong=judge.wrong,
            failed=sum(tally.failures.values()),
            outage_seconds=tally.outage,
            figures={**self.figures, **({} if not kinds["failed"] else kinds), "walks": str(self.readers.walks)},
            violations=[*wrong, *judge.findings, *self.violations],
        )


@asynccontextmanager
async def run_scenario(
    ground: ScenarioCluster,
    *,
    urls: Sequence[str] = (),
    judge: PageOracle | None = None,
    chosen: Sequence[FeedWalkSpec] | None = None,
    **settings: Any,
) -> AsyncIterator[ScenarioRun]:
    """Run a service with consumers; its log is checked when it has ended.

    `urls` are where it finds the nodes, `chosen` what is walked, `settings` the service's own.
    """
    extent, stage = ground.extent, ground.stage
    settings = {"deadline_seconds": extent.deadline, **settings}
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(
            stage.service("--workers", str(extent.workers), urls=urls, **settings)
        )
        log = stack.enter_context(serving.log.open(encoding="utf-8"))
        walked = mixed_walks(ground.truth, extent.walkers) if chosen is None else chosen
        judge = PageOracle([ground.truth]) if judge is None else judge
        async with reading(serving.url, stage.key, walked, judge, extent.pause) as readers:
            play = ScenarioRun(ground, serving, readers)
            await play.read(extent.before)
            yield play
            await play.read(extent.after)
            await play.read_enough()
        lines = _COMPLAINTS.findall(log.read())
        # Where times are not checked, a busy machine is not a defect.
        complaints = [line for line in lines if extent.is_timed or _LATE_CHECK not in line]
        play.must(serving.process.returncode is None, f"the service ended with {serving.process.returncode}")
        play.must(not complaints, f"the log has {len(complaints)} complaints, such as: {complaints[:1]}")
