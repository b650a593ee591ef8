"""Readers during a run: open walks and the invariants of every page, copies kept by polling, copies kept by changes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from mappings import LISTING, SOLD_LISTING, Resource
from tests.chaos.machine_environment import MachineEnvironment
from tests.chaos.machine_run import MachineRun
from tests.indexer.expected_state import TeamState
from tests.simulation.control import ControlledReplica
from tests.simulation.copies import SnapshotCopy, differences
from tests.simulation.model import CHILDREN, ENDS, FEED_QUERIES, LONE, FeedQuery, MachineModel
from tests.waiting import until

Way = tuple[int, dict[str, str]]  # the page size and the form of the answer

EVER = 1  # second
_TO_THE_END = 1_000  # pages
# What is kept by polling: one company, and all that the resource's feed gives at once.
_POLLED = {LISTING: (0, 3), SOLD_LISTING: (0, 1)}


# One loses records that move to another company, the other those that leave the market.
_FOLLOWED = {
    LISTING: (
        FeedQuery(LISTING, "child", {}, frozenset(CHILDREN[:1])),
        FeedQuery(LISTING, "two", {}, frozenset((CHILDREN[0], LONE)), "on-market"),
    ),
    SOLD_LISTING: (
        FeedQuery(SOLD_LISTING, "child", {}, frozenset(CHILDREN[:1])),
        FeedQuery(SOLD_LISTING, "two", {}, frozenset((CHILDREN[0], LONE))),
    ),
}


class Follower(NamedTuple):
    """A consumer that keeps a copy by a snapshot and its changes: only a void token makes it start over."""

    ask: FeedQuery
    copy: SnapshotCopy


@dataclass(frozen=True)
class FeedPageView:
    """A page: states by identifier, in order, whether it is the last, and the next watermark."""

    names: list[tuple[str, str]]
    is_final: bool
    watermark: int | None


@dataclass
class FeedWalk:
    """An open walk, and what it may and must have returned so far."""

    ask: FeedQuery
    size: int
    style: dict[str, str]
    since: int = EVER
    replica: int = 0  # a walk stays with one process of the service
    cursor: str = ""
    watermark: int | None = None
    is_over: bool = False
    must: set[str] | None = None  # matched all along
    may: dict[str, set[str]] = field(default_factory=dict)  # by identifier, the names of states that did at some time
    seen: list[str] = field(default_factory=list)

    def witness(self, truth: MachineModel, identifiers: Iterable[str]) -> None:
        """Record the visible states; called at the start and after every change."""
        must = set()
        for identifier in identifiers:
            states, (low, high) = truth.possible(identifier), truth.clocks(identifier)
            matching = [str(state.name) for state in states if state is not None and self.ask.matches(state)]
            if matching and (self.since <= EVER or high >= self.since * 1_000):
                self.may.setdefault(identifier, set()).update(matching)
            if len(matching) == len(states) and (self.since <= EVER or low >= self.since * 1_000):
                must.add(identifier)
        self.must = must if self.must is None else self.must & must

    async def page(self, replica: ControlledReplica, key: str) -> FeedPageView:
        query = {**self.ask.query, **self.style, "updated_since": str(self.since), "page_size": str(self.size)}
        query |= {"last_platform_listing_id": self.cursor} if self.cursor else {}
        status, body, headers = await replica.ask(key, self.ask.resource.alias, query)
        assert status == 200, body
        page = _page(orjson.loads(body), headers.get("X-Next-Updated-Since"))
        self._check(page)
        return page

    def _check(self, page: FeedPageView) -> None:
        identifiers = [identifier for identifier, _ in page.names]
        context = f"{self}\nreturned {page}"
        assert (page.watermark is not None) is (not self.cursor), f"only the first page has a watermark: {context}"
        assert identifiers == sorted(set(identifiers)), f"not in order, or twice: {context}"
        assert not identifiers or identifiers[0] > self.cursor, f"not after the cursor: {context}"
        assert len(identifiers) == self.size or (page.is_final and len(identifiers) < self.size), f"not full: {context}"
        unexpected = [(id_, name) for id_, name in page.names if name not in self.may.get(id_, ())]
        assert not unexpected, f"never matched, or not in this state: {unexpected} {context}"
        last = identifiers[-1] if identifiers else self.cursor
        passed = {name for name in self.must or () if self.cursor < name <= last}
        assert passed <= {*identifiers}, f"left out: {passed - {*identifiers}} {context}"
        follow = [name for name in (self.must if page.is_final else self.may) or () if name > last]
        assert bool(follow) is not page.is_final, f"FinalPage is wrong: {follow} {context}"
        self.seen += identifiers
        self.cursor, self.is_over = last, page.is_final
        self.watermark = page.watermark if self.watermark is None else self.watermark


def _page(body: dict[str, Any], watermark: str | None) -> FeedPageView:
    final, listings = ("FinalPage", "Listings") if "Listings" in body else ("final_page", "listings")
    spelt = [("PlatformListingId", "ListingID"), ("platform_listing_id", "listing_id")]
    found = [(one[key], one[name]) for one in body[listings] for key, name in spelt if key in one]
    return FeedPageView(found, body[final], None if watermark is None else int(watermark))


@dataclass
class PollingCopy:
    """Keeps a copy: walks everything once, then the changes since the watermark of the previous walk."""

    ask: FeedQuery
    size: int
    style: dict[str, str]
    watermark: int = EVER
    copy: dict[str, str] = field(default_factory=dict)
    walk: FeedWalk | None = None

    def begin(self, replica: int, size: int = 0) -> FeedWalk:
        """Start a poll, even if the previous one is unfinished; optionally with a different page size."""
        self.walk = FeedWalk(self.ask, size or self.size, self.style, self.watermark, replica)
        return self.walk

    async def go_on(self, replica: ControlledReplica, key: str) -> None:
        """Apply the next page; at the end of the walk, keep the watermark of its first page."""
        walk = self.walk
        assert walk is not None
        page = await walk.page(replica, key)
        if walk is not self.walk:  # it was given up meanwhile
            return
        self.copy |= dict(page.names)
        if walk.is_over:
            assert walk.watermark is not None
            assert walk.watermark >= self.watermark, "the watermark stepped back"
            self.watermark, self.walk = walk.watermark, None

    def compare(self, live: dict[str, TeamState]) -> None:
        """Compare the copy with the live records: it has all of them; other records in it were deleted or moved."""
        there = self.ask.names(live)
        missed = {name: (self.copy.get(name), live[name]) for name in there if self.copy.get(name) != there[name]}
        assert not missed, f"missed: {missed} {self}"
        unknown = self.copy.keys() - live.keys()
        assert not unknown, f"neither live nor known to be deleted: {unknown} {self}"

    def forget(self) -> None:
        self.copy, self.watermark, self.walk = {}, EVER, None


class MachineReaders:
    """The walks and consumers of one run. Each walk stays on the replica on which it started."""

    def __init__(self, environment: MachineEnvironment, resource: Resource, polling: Sequence[Way]) -> None:
        self.play = MachineRun(environment, resource, self.witness)
        self.walks: list[FeedWalk] = []
        self.is_compared = False
        asked = [FEED_QUERIES[resource][at] for at in _POLLED[resource]]
        self.consumers = [PollingCopy(ask, *way) for ask, way in zip(asked, polling, strict=True)]
        self.followers = [
            Follower(ask, SnapshotCopy(resource.alias, size, ask.followed))
            for ask, (size, _) in zip(_FOLLOWED[resource], polling, strict=True)
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
        self.walks = [open_walk for open_walk in self.walks if not open_walk.is_over]

    async def poll(self, consumer: PollingCopy, count: int, replica: int) -> None:
        """Continue the poll of a consumer for this number of pages, or to its end; start one if there is none."""
        if consumer.walk is None:
            consumer.begin(replica)
            self.witness()
        while count and consumer.walk is not None:
            await consumer.go_on(*self._way(consumer.walk))
            count -= 1

    async def follow(self, follower: Follower, count: int, replica: int) -> None:
        """Let a follower read this number of pages, or to the end."""
        get = self._environment.replicas[replica].get(self._environment.keys[follower.ask.key])
        await follower.copy.read(get, count)

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
            true = follower.ask.names(self.play.truth.model.live)
            wrong = differences(true, follower.copy.records)
            assert not wrong, f"true and copied: {wrong} {follower}"
        self.is_compared = True

    def forget(self) -> None:
        for consumer in self.consumers:
            consumer.forget()

    def _way(self, walk: FeedWalk) -> tuple[ControlledReplica, str]:
        return self._environment.replicas[walk.replica], self._environment.keys[walk.ask.key]
