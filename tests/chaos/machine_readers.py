"""Those who read while the records of a run change: walks under way, and consumers that poll."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.chaos.machine_asks import ASKS, POLLED
from tests.chaos.machine_follower import FOLLOWED, Follower
from tests.chaos.machine_play import Play
from tests.chaos.machine_truth import ENDS
from tests.chaos.machine_walks import Consumer, Walk
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mappings import Resource
    from tests.chaos.machine_asks import Ask
    from tests.chaos.machine_corner import Corner
    from tests.chaos.machine_gates import Replica

    Way = tuple[int, dict[str, str]]  # the page size and the form of the answer

_TO_THE_END = 1_000  # pages


class Readers:
    """The walks and the consumers of one run. Each walk stays with the replica that it began with."""

    def __init__(self, corner: Corner, resource: Resource, polling: Sequence[Way]) -> None:
        """Nobody walks yet; the consumers know nothing."""
        self.play = Play(corner, resource, self.witness)
        self.walks: list[Walk] = []
        self.is_compared = False
        asked = [ASKS[resource][at] for at in POLLED[resource]]
        self.consumers = [Consumer(ask, *way) for ask, way in zip(asked, polling, strict=True)]
        self.followers = [Follower(ask, size) for ask, (size, _) in zip(FOLLOWED[resource], polling, strict=True)]
        self._corner = corner
        self._asked: list[tuple[Ask, int, dict[str, str]]] = []

    def witness(self) -> None:
        """Let every walk under way take note of what is true now."""
        self.is_compared = False
        for walk in [*self.walks, *(consumer.walk for consumer in self.consumers)]:
            if walk is not None:
                walk.witness(self.play.truth, self.play.identifiers)

    def begin(self, choice: int, way: Way, replica: int, *, is_again: bool) -> Walk:
        """Begin a walk, or the one that was begun last once more."""
        asks = ASKS[self.play.resource]
        if not (is_again and self._asked):
            self._asked.append((asks[choice % len(asks)], *way))
        self.walks.append(Walk(*self._asked[-1], replica=replica))
        self.witness()
        return self.walks[-1]

    async def walk_on(self, walk: Walk, count: int) -> None:
        """Walk so many pages, or to the end."""
        while count and not walk.is_over:
            await walk.page(*self._way(walk))
            count -= 1
        self.walks = [each for each in self.walks if not each.is_over]

    async def poll(self, consumer: Consumer, count: int, replica: int) -> None:
        """Let a consumer go on with its poll for so many pages, or to its end; it begins one if none is under way."""
        if consumer.walk is None:
            consumer.begin(replica)
            self.witness()
        while count and consumer.walk is not None:
            await consumer.go_on(*self._way(consumer.walk))
            count -= 1

    async def follow(self, follower: Follower, count: int, replica: int) -> None:
        """Let a follower go on for so many pages, or to the end."""
        await follower.go_on(self._corner.replicas[replica], self._corner.keys[follower.ask.key], count)

    async def watch(self, which: int, replica: int, step: int, milliseconds: int) -> None:
        """Let the work go on step by step, each after some time; before one of them a copy is read to the end."""
        while not self.play.is_idle:
            if step == 0:
                await self._read(which, replica)
            step -= 1
            self._corner.clock.milliseconds += milliseconds
            await self.play.go_on(1)

    async def _read(self, which: int, replica: int) -> None:
        if which < len(self.consumers):
            await self.poll(self.consumers[which], _TO_THE_END, replica)
        else:
            await self.follow(self.followers[which - len(self.consumers)], _TO_THE_END, replica)

    async def overtake(self, consumer: Consumer, replica: int, change: Callable[[], Awaitable[None]]) -> None:
        """Let records change while the first search of a poll is under way, and someone else ask the same then."""
        first = consumer.begin(replica)
        self.witness()
        held, key = self._way(first)
        held.hold = let_go = asyncio.Event()
        held.is_holding.clear()
        early = asyncio.create_task(consumer.go_on(held, key))
        await held.is_holding.wait()
        await change()
        second = Walk(first.ask, first.size, first.style, first.since)
        second.witness(self.play.truth, self.play.identifiers)
        late = asyncio.create_task(second.page(held, key))
        await until(lambda: late.done() or held.joined())
        let_go.set()
        await asyncio.gather(early, late)

    async def compare(self) -> None:
        """Let nobody write, and everyone who keeps a copy read to the end: all have what is there."""
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
        """Let every consumer begin anew, as after a rollback."""
        for consumer in self.consumers:
            consumer.forget()

    def _way(self, walk: Walk) -> tuple[Replica, str]:
        return self._corner.replicas[walk.replica], self._corner.keys[walk.ask.key]
