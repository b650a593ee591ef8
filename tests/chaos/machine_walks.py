"""Consumers of a feed: walks page by page, the invariants of every page, and copies kept by polling."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.chaos.machine_control import ControlledReplica
from tests.chaos.machine_model import MachineModel
from tests.chaos.machine_queries import FeedQuery
from tests.indexer.expected_state import TeamState

EVER = 1  # second


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
        """Request the next page and check it."""
        query = {
            **self.ask.query,
            **self.style,
            "updated_since": str(self.since),
            "page_size": str(self.size),
        }
        query |= {"last_platform_listing_id": self.cursor} if self.cursor else {}
        url = f"/v1/{self.ask.resource.alias}"
        async with replica.http.get(url, params=query, headers={"x-api-key": key}) as answer:
            body = await answer.read()
            assert answer.status == 200, body
            page = _page(orjson.loads(body), answer.headers.get("X-Next-Updated-Since"))
        self._check(page)
        return page

    def _check(self, page: FeedPageView) -> None:
        identifiers = [identifier for identifier, _ in page.names]
        context = f"{self}\nreturned {page}"
        assert (page.watermark is not None) is (not self.cursor), f"only the first page has a watermark: {context}"
        assert identifiers == sorted(set(identifiers)), f"not in order, or twice: {context}"
        assert not identifiers or identifiers[0] > self.cursor, f"not after the cursor: {context}"
        assert len(identifiers) == self.size or (page.is_final and len(identifiers) < self.size), f"not full: {context}"
        unexpected = [(each, name) for each, name in page.names if name not in self.may.get(each, ())]
        assert not unexpected, f"never matched, or not in this state: {unexpected} {context}"
        last = identifiers[-1] if identifiers else self.cursor
        passed = {each for each in self.must or () if self.cursor < each <= last}
        assert passed <= {*identifiers}, f"left out: {passed - {*identifiers}} {context}"
        follow = [each for each in (self.must if page.is_final else self.may) or () if each > last]
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
        there = {name: state.name for name, state in live.items() if self.ask.matches(state)}
        missed = {name: (self.copy.get(name), live[name]) for name in there if self.copy.get(name) != there[name]}
        assert not missed, f"missed: {missed} {self}"
        unknown = self.copy.keys() - live.keys()
        assert not unknown, f"neither live nor known to be deleted: {unknown} {self}"

    def forget(self) -> None:
        """Start over, as after a rollback."""
        self.copy, self.watermark, self.walk = {}, EVER, None
