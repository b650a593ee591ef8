"""A scenario: a service of its own, readers whose every page is judged, and what was found for the report."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.network.proxy import Proxy, proxied
from tests.simulation.nodes import ClusterNodes, three_nodes
from tests.simulation.oracle import ExpectedFeeds, FeedWalkSpec, PageOracle, mixed_walks
from tests.simulation.readers import FeedReaders, reading
from tests.simulation.requests import GOOD, ObservedRequest, RequestTotals
from tests.simulation.results import ScenarioResult
from tests.simulation.services import LoadedCluster, RunningServe, load_cluster
from tests.waiting import until

_COMPLAINTS = re.compile(r"^.*\b(?:ERROR|CRITICAL)\b.*$|^Traceback .*$|^.*\bfailed$", re.MULTILINE)
# What the service logs if a check of Elasticsearch takes longer than two seconds.
_LATE_CHECK = "it is unreachable"
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0  # with requests that must come, on a busy machine


@dataclass(frozen=True, kw_only=True)
class ScenarioScale:
    """The extent of a scenario; all times are in seconds."""

    listings: int
    workers: int  # processes of the service
    walkers: int
    pause: float  # between an answer and the next request of a walker
    before: float  # of reading before a fault
    during: float  # of a fault that lasts
    after: float  # of reading after a fault
    least: int  # requests in all, which a slow machine may need longer for
    deadline: float  # the service's own
    swaps: int  # of an alias
    is_timed: bool  # whether a figure in seconds that is missed is a violation


FULL = ScenarioScale(
    listings=1500, workers=2, walkers=20, pause=0.15, before=12, during=30, after=12, least=0, deadline=10.0, swaps=200,
    is_timed=True,
)  # fmt: skip
# For tests: everything happens, but briefly, and no times are checked, since a busy machine is not a defect.
SHORT = ScenarioScale(
    listings=160, workers=1, walkers=11, pause=0.15, before=0.7, during=3, after=1.0, least=60, deadline=4.0, swaps=40,
    is_timed=False,
)  # fmt: skip


@dataclass(frozen=True)
class Ground:
    """Loaded data, the records that it was loaded from, and the extent of scenarios on it."""

    stage: LoadedCluster
    truth: ExpectedFeeds
    extent: ScenarioScale


@dataclass(frozen=True)
class ScenarioCluster(Ground):
    nodes: ClusterNodes


@asynccontextmanager
async def ground_at(urls: Sequence[str], extent: ScenarioScale = SHORT) -> AsyncIterator[Ground]:
    """Load data into a cluster that runs already."""
    async with load_cluster(urls, extent.listings) as stage:
        yield Ground(stage, ExpectedFeeds.of(stage.source), extent)


@asynccontextmanager
async def scenario_cluster(extent: ScenarioScale) -> AsyncIterator[ScenarioCluster]:
    """Start a cluster of three, load it, and wait until all replicas are allocated."""
    async with three_nodes() as nodes, ground_at(nodes.urls, extent) as ground:
        await nodes.whole()
        yield ScenarioCluster(ground.stage, ground.truth, extent, nodes)


@dataclass
class ScenarioRun:
    """The service, its consumers, and the findings."""

    ground: Ground
    serving: RunningServe
    readers: FeedReaders
    proxies: list[Proxy] = field(default_factory=list)  # before each node, if the service reaches it through them
    figures: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @property
    def tally(self) -> RequestTotals:
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

    async def seen(self, since: float, path: str, *kinds: str) -> list[ObservedRequest]:
        """Return the requests of a path since a moment, of all kinds or of these; wait for the first."""
        while True:
            now = time.monotonic()
            found = [request for request in self.tally.between(since, now, path) if not kinds or request.kind in kinds]
            if found or now > since + _PATIENCE_SECONDS:
                return found
            await self.read(_LOOK_SECONDS)

    def some_good(self, began: float, ended: float, figure: str, sentence: str) -> None:
        """Require that requests within a period succeeded, and note how many."""
        seen = self.tally.between(began, ended)
        good = sum(request.kind == GOOD for request in seen)
        self.figures[figure] = f"{good} of {len(seen)} requests succeeded"
        self.must(good > 0, sentence)

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
        tally, judge = self.tally, self.readers.judge
        self.must(not tally.untold, f"{tally.untold} refusals did not say when to come back")
        self.must(bool(self.readers.walks), "no walk came to its end")
        wrong = [f"{judge.wrong} wrong answers"] if judge.wrong else []
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(tally.failures.items()))
        return ScenarioResult(
            fault=fault,
            requests=len(tally.seen),
            wrong=judge.wrong,
            failed=sum(tally.failures.values()),
            outage_seconds=tally.outage,
            figures={**self.figures, **({"failed": kinds} if kinds else {}), "walks": str(self.readers.walks)},
            violations=[*wrong, *judge.findings, *self.violations],
        )


@asynccontextmanager
async def run_scenario(
    ground: Ground,
    *,
    is_proxied: bool = False,
    judge: PageOracle | None = None,
    chosen: Sequence[FeedWalkSpec] | None = None,
    **settings: Any,
) -> AsyncIterator[ScenarioRun]:
    """Run a service with consumers; its log is checked when it has ended.

    It reaches the nodes through proxies if it is `is_proxied`; `chosen` is what is walked, `settings` are its own.
    """
    extent, stage = ground.extent, ground.stage
    settings = {"deadline_seconds": extent.deadline, **settings}
    async with AsyncExitStack() as stack:
        proxies = await stack.enter_async_context(proxied(stage.connection.url)) if is_proxied else []
        serving = await stack.enter_async_context(
            stage.service("--workers", str(extent.workers), urls=[proxy.url for proxy in proxies], **settings)
        )
        log = stack.enter_context(serving.log.open(encoding="utf-8"))
        walked = mixed_walks(ground.truth, extent.walkers) if chosen is None else chosen
        judge = PageOracle([ground.truth]) if judge is None else judge
        async with reading(serving.url, stage.key, walked, judge, extent.pause) as readers:
            play = ScenarioRun(ground, serving, readers, proxies)
            await play.read(extent.before)
            try:
                yield play
            finally:
                for proxy in proxies:
                    await proxy.heal()
            await play.read(extent.after)
            await play.read_enough()
        lines = _COMPLAINTS.findall(log.read())
        # Where times are not checked, a busy machine is not a defect.
        complaints = [line for line in lines if extent.is_timed or _LATE_CHECK not in line]
        play.must(serving.process.returncode is None, f"the service ended with {serving.process.returncode}")
        play.must(not complaints, f"the log has {len(complaints)} complaints, such as: {complaints[:1]}")
