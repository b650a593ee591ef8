"""Consumers of a feed: walks page by page, what must hold of every page, and copies that are kept by polling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.chaos.machine_asks import Ask
    from tests.chaos.machine_gates import Replica
    from tests.chaos.machine_truth import Truth
    from tests.indexer.model import State

EVER = 1  # second


@dataclass(frozen=True)
class Page:
    """An answered page: the state's name by identifier, in order, whether it is the last, and the next watermark."""

    names: list[tuple[str, str]]
    is_final: bool
    watermark: int | None


@dataclass
class Walk:
    """A walk under way, and what it may and must show so far."""

    ask: Ask
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

    def witness(self, truth: Truth, identifiers: Iterable[str]) -> None:
        """Take note of what is true now; to be called at the beginning and after every change."""
        must = set()
        for identifier in identifiers:
            states, (low, high) = truth.possible(identifier), truth.clocks(identifier)
            matching = [str(state.name) for state in states if state is not None and self.ask.matches(state)]
            if matching and (self.since <= EVER or high >= self.since * 1_000):
                self.may.setdefault(identifier, set()).update(matching)
            if len(matching) == len(states) and (self.since <= EVER or low >= self.since * 1_000):
                must.add(identifier)
        self.must = must if self.must is None else self.must & must

    async def page(self, replica: Replica, key: str) -> Page:
        """Ask for the next page and check it; what is read ahead then is there when this returns."""
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
        await replica.landed()
        self._check(page)
        return page

    def _check(self, page: Page) -> None:
        identifiers = [identifier for identifier, _ in page.names]
        told = f"{self}\nanswered {page}"
        assert (page.watermark is not None) is (not self.cursor), f"a watermark with the first page alone: {told}"
        assert identifiers == sorted(set(identifiers)), f"not in order, or twice: {told}"
        assert not identifiers or identifiers[0] > self.cursor, f"behind the cursor: {told}"
        assert len(identifiers) == self.size or (page.is_final and len(identifiers) < self.size), f"not full: {told}"
        strangers = [(each, name) for each, name in page.names if name not in self.may.get(each, ())]
        assert not strangers, f"never matched, or not in this state: {strangers} {told}"
        last = identifiers[-1] if identifiers else self.cursor
        passed = {each for each in self.must or () if self.cursor < each <= last}
        assert passed <= {*identifiers}, f"left out: {passed - {*identifiers}} {told}"
        follow = [each for each in (self.must if page.is_final else self.may) or () if each > last]
        assert bool(follow) is not page.is_final, f"FinalPage is wrong: {follow} {told}"
        self.seen += identifiers
        self.cursor, self.is_over = last, page.is_final
        self.watermark = page.watermark if self.watermark is None else self.watermark


def _page(body: dict[str, Any], watermark: str | None) -> Page:
    final, listings = ("FinalPage", "Listings") if "Listings" in body else ("final_page", "listings")
    spelt = [("PlatformListingId", "ListingID"), ("platform_listing_id", "listing_id")]
    found = [(one[key], one[name]) for one in body[listings] for key, name in spelt if key in one]
    return Page(found, body[final], None if watermark is None else int(watermark))


@dataclass
class Consumer:
    """Keeps a copy: walks everything once, then what has changed since the watermark of the walk before."""

    ask: Ask
    size: int
    style: dict[str, str]
    watermark: int = EVER
    copy: dict[str, str] = field(default_factory=dict)
    walk: Walk | None = None

    def begin(self, replica: int, size: int = 0) -> Walk:
        """Begin to poll, whatever is left of the poll before; in pages of another size if one is given."""
        self.walk = Walk(self.ask, size or self.size, self.style, self.watermark, replica)
        return self.walk

    async def go_on(self, replica: Replica, key: str) -> None:
        """Take over the next page; at the end of the walk the watermark of its first page counts."""
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

    def compare(self, live: dict[str, State]) -> None:
        """Compare the copy with what is live: all that is there is in it; what else is in it was deleted or moved."""
        there = {name: state.name for name, state in live.items() if self.ask.matches(state)}
        missed = {name: (self.copy.get(name), live[name]) for name in there if self.copy.get(name) != there[name]}
        assert not missed, f"missed: {missed} {self}"
        unknown = self.copy.keys() - live.keys()
        assert not unknown, f"neither there nor told to be gone: {unknown} {self}"

    def forget(self) -> None:
        """Begin anew, as after a rollback."""
        self.copy, self.watermark, self.walk = {}, EVER, None
