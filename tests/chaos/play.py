"""One scenario under way: a service of its own, consumers, and what is noted for the report."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.chaos.judge import Judge
from tests.chaos.outcome import Outcome
from tests.chaos.walkers import reading
from tests.chaos.walks import walks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.chaos.ground import Ground
    from tests.chaos.stage import Serving
    from tests.chaos.tally import Tally
    from tests.chaos.truth import Walk
    from tests.chaos.walkers import Readers

_COMPLAINTS = re.compile(r"^.*\b(?:ERROR|CRITICAL)\b.*$|^Traceback .*$|^.*\bfailed$", re.MULTILINE)


@dataclass
class Play:
    """The service, its consumers, and what was found."""

    ground: Ground
    serving: Serving
    readers: Readers
    figures: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @property
    def tally(self) -> Tally:
        """What the consumers saw."""
        return self.readers.tally

    def must(self, holds: bool, sentence: str) -> None:
        """Note a violation unless something holds."""
        if not holds:
            self.violations.append(sentence)

    def timely(self, holds: bool, sentence: str) -> None:
        """Do the same of what is measured in seconds, where that is judged."""
        self.must(holds or not self.ground.extent.is_timed, sentence)

    def unfailing(self, what: str) -> None:
        """No request fails; one that takes too long is judged where times are."""
        failures = self.tally.failures
        late = failures.pop("504", 0)
        self.must(not failures, f"{what}: requests failed")
        self.timely(not late, f"{what}: {late} requests took too long")

    async def read(self, seconds: float) -> tuple[float, float]:
        """Let the consumers read for a while; return when that began and ended."""
        began = time.monotonic()
        await asyncio.sleep(seconds)
        return began, time.monotonic()

    def punctual(self) -> None:
        """No answer comes later than the deadline, and 300 ms for all that is not waiting."""
        deadline = self.ground.extent.deadline
        self.figures["slowest answer"] = f"{self.tally.slowest:.2f} s (deadline {deadline:g} s)"
        slowest = self.tally.slowest
        self.timely(slowest <= deadline + 0.3, f"an answer took {slowest:.2f} s, the deadline is {deadline:g} s")

    def outcome(self, fault: str) -> Outcome:
        """Return the row of the report."""
        tally, judge = self.tally, self.readers.judge
        self.must(not tally.untold, f"{tally.untold} refusals did not say when to come back")
        self.must(bool(self.readers.walks), "no walk came to its end")
        wrong = [f"{judge.wrong} wrong answers"] if judge.wrong else []
        kinds = {"failed": ", ".join(f"{kind}: {count}" for kind, count in sorted(tally.failures.items()))}
        return Outcome(
            fault=fault,
            requests=len(tally.seen),
            wrong=judge.wrong,
            failed=sum(tally.failures.values()),
            outage_seconds=tally.outage,
            figures={**self.figures, **({} if not kinds["failed"] else kinds), "walks": str(self.readers.walks)},
            violations=[*wrong, *judge.findings, *self.violations],
        )


@asynccontextmanager
async def playing(
    ground: Ground,
    *,
    urls: Sequence[str] = (),
    judge: Judge | None = None,
    chosen: Sequence[Walk] | None = None,
    **settings: Any,
) -> AsyncIterator[Play]:
    """Run a service on the ground with consumers; what it logged is looked at when it has ended.

    `urls` are where it finds the nodes, `chosen` what is walked, `settings` the service's own.
    """
    extent, stage = ground.extent, ground.stage
    settings = {"deadline_seconds": extent.deadline, **settings}
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(
            stage.service("--workers", str(extent.workers), urls=urls, **settings)
        )
        log = stack.enter_context(serving.log.open(encoding="utf-8"))
        walked = walks(ground.truth, extent.walkers) if chosen is None else chosen
        judge = Judge([ground.truth]) if judge is None else judge
        async with reading(serving.url, stage.key, walked, judge, extent.pause) as readers:
            play = Play(ground, serving, readers)
            await play.read(extent.before)
            yield play
            await play.read(extent.after)
        complaints = _COMPLAINTS.findall(log.read())
        play.must(serving.process.returncode is None, f"the service ended with {serving.process.returncode}")
        play.must(not complaints, f"the log has {len(complaints)} complaints, such as: {complaints[:1]}")
