"""Readers during a run: open walks, and consumers that poll."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from mappings import Resource
from tests.chaos.machine_control import ControlledReplica
from tests.chaos.machine_environment import MachineEnvironment
from tests.chaos.machine_followers import FOLLOWED, SnapshotFollower
from tests.chaos.machine_model import ENDS
from tests.chaos.machine_queries import FEED_QUERIES, POLLED, FeedQuery
from tests.chaos.machine_run import MachineRun
from tests.chaos.machine_walks import FeedWalk, PollingCopy
from tests.waiting import until

Way = tuple[int, dict[str, str]]  # the page size and the form of the answer

_TO_THE_END = 1_000  # pages


class MachineReaders:
    """The walks and consumers of one run. Each walk stays on the replica on which it started."""

    def __init__(self, environment: MachineEnvironment, resource: Resource, polling: Sequence[Way]) -> None:
        """Start without walks and with empty consumers."""
        self.play = MachineRun(environment, resource, self.witness)
        self.walks: list[FeedWalk] = []
        self.is_compared = False
        asked = [FEED_QUERIES[resource][at] for at in POLLED[resource]]
        self.consumers = [PollingCopy(ask, *way) for ask, way in zip(asked, polling, strict=True)]
        self.followers = [
            SnapshotFollower(ask, size) for ask, (size, _) in zip(FOLLOWED[resource], polling, strict=True)
        ]
        self._environment = environment
        self._asked: list[tuple[FeedQuery, int, dict[str, str]]] = []

    def witness(self) -> None:
        """Let every open walk record the visible states."""
        self.is_compared = False
        for walk in [*self.walks, *(consumer.walk for consumer in self.consumers)]:
            if walk is not None:
                walk.witness(self.play.truth, self.play.identifiers)

    def begin(self, choice: int, way: Way, replica: int, *, is_again: bool) -> FeedWalk:
        """Start a walk, or repeat the one that was started last."""
        asks = FEED_QUERIES[self.play.resource]
        if not (is_again and self._asked):
            self._asked.append((asks[choice % len(asks)], *way))
        self.walks.append(FeedWalk(*self._asked[-1], replica=replica))
        self.witness()
        return self.walks[-1]

    async def walk_on(self, walk: FeedWalk, count: int) -> None:
        """Read this number of pages of a walk, or to its end."""
        while count and not walk.is_over:
            await walk.page(*self._way(walk))
            count -= 1
        self.walks = [each for each in self.walks if not each.is_over]

    async def poll(self, consumer: PollingCopy, count: int, replica: int) -> None:
        """Continue the poll of a consumer for this number of pages, or to its end; start one if there is none."""
        if consumer.walk is None:
            consumer.begin(replica)
            self.witness()
        while count and consumer.walk is not None:
            await consumer.go_on(*self._way(consumer.walk))
            count -= 1

    async def follow(self, follower: SnapshotFollower, count: int, replica: int) -> None:
        """Let a follower read this number of pages, or to the end."""
        await follower.go_on(self._environment.replicas[replica], self._environment.keys[follower.ask.key], count)

    async def watch(self, which: int, replica: int, step: int, milliseconds: int) -> None:
        """Resume the work step by step, with some time before each; before one of them, read a copy to the end."""
        while not self.play.is_idle:
            if step == 0:
                await self._read(which, replica)
            step -= 1
            self._environment.clock.milliseconds += milliseconds
            await self.play.go_on(1)

    async def _read(self, which: int, replica: int) -> None:
        if which < len(self.consumers):
            await self.poll(self.consumers[which], _TO_THE_END, replica)
        else:
            await self.follow(self.followers[which - len(self.consumers)], _TO_THE_END, replica)

    async def overtake(self, consumer: PollingCopy, replica: int, change: Callable[[], Awaitable[None]]) -> None:
        """Change records during the first search of a poll, and send the same request meanwhile."""
        first = consumer.begin(replica)
        self.witness()
        held, key = self._way(first)
        held.hold = release = asyncio.Event()
        held.is_holding.clear()
        early = asyncio.create_task(consumer.go_on(held, key))
        await held.is_holding.wait()
        await change()
        second = FeedWalk(first.ask, first.size, first.style, first.since)
        second.witness(self.play.truth, self.play.identifiers)
        late = asyncio.create_task(second.page(held, key))
        await until(lambda: late.done() or held.joined())
        release.set()
        await asyncio.gather(early, late)

    async def compare(self) -> None:
        """Stop writes and let all copies read to the end: they must equal the live records."""
        await self.play.go_on()
        await self.play.check()
        for replica, consumer in enumerate(self.consumers):
            walk = consumer.begin(replica, len(ENDS))
            self.witness()
            await consumer.go_on(*self._way(walk))
            consumer.compare(self.play.truth.model.live)
        for replica, follower in enumerate(self.followers):
            await self.follow(follower, _TO_THE_END, replica)
            follower.compare(self.play.truth.model.live)
        self.is_compared = True

    def forget(self) -> None:
        """Let every consumer start over, as after a rollback."""
        for consumer in self.consumers:
            consumer.forget()

    def _way(self, walk: FeedWalk) -> tuple[ControlledReplica, str]:
        return self._environment.replicas[walk.replica], self._environment.keys[walk.ask.key]
