"""Consumers that keep a copy by a snapshot and the changes since: nothing but a void token makes them begin anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from mappings import LISTING, SOLD_LISTING
from tests.chaos.machine_asks import Ask
from tests.chaos.machine_truth import CHILDREN, LONE

if TYPE_CHECKING:
    from tests.chaos.machine_gates import Replica
    from tests.indexer.model import State

# Who loses what moves to another company, and who loses what leaves the market.
FOLLOWED = {
    LISTING: (
        Ask(LISTING, "child", {}, frozenset(CHILDREN[:1])),
        Ask(LISTING, "two", {}, frozenset((CHILDREN[0], LONE)), "on-market"),
    ),
    SOLD_LISTING: (
        Ask(SOLD_LISTING, "child", {}, frozenset(CHILDREN[:1])),
        Ask(SOLD_LISTING, "two", {}, frozenset((CHILDREN[0], LONE))),
    ),
}


@dataclass
class Follower:
    """A copy of what a key may read: the names of states by identifier."""

    ask: Ask
    size: int
    token: str = ""
    copy: dict[str, str] = field(default_factory=dict)
    place: int = 0  # the sequence of the last change
    snapshots: int = 0

    async def go_on(self, replica: Replica, key: str, pages: int) -> None:
        """Take a snapshot, or so many pages of changes unless the end comes before."""
        if not self.token:
            await self._begin(replica, key)
        while pages and not await self._page(replica, key):
            pages -= 1

    async def _begin(self, replica: Replica, key: str) -> None:
        status, body = await self._get(replica, key, f"snapshot/{self.ask.resource.alias}", {})
        assert status == 200, body
        head, *lines, tail = [orjson.loads(line) for line in body.splitlines()]
        assert head["count"] == tail["count"] == len(lines), f"not whole: {body!r}"
        self.copy = {line["id"]: line["record"]["ListingID"] for line in lines}
        self.token, self.place, self.snapshots = head["token"], 0, self.snapshots + 1

    async def _page(self, replica: Replica, key: str) -> bool:
        """Apply the next page; return whether it is the last."""
        parameters = {"since": self.token, "page_size": str(self.size)}
        status, body = await self._get(replica, key, "changes", parameters)
        if status == 410:
            await self._begin(replica, key)
            return False
        assert status == 200, body
        page = orjson.loads(body)
        for change in page["changes"]:
            self._apply(change)
        self.token = page["next"]
        return bool(page["at_end"])

    def _apply(self, change: dict[str, Any]) -> None:
        assert change["sequence"] > self.place, f"at or behind what was told: {change} {self}"
        self.place = change["sequence"]
        if "reason" in change:
            self.copy.pop(change["id"], None)
        else:
            self.copy[change["id"]] = change["record"]["ListingID"]

    async def _get(self, replica: Replica, key: str, path: str, parameters: dict[str, str]) -> tuple[int, bytes]:
        query = parameters | ({"market_status": self.ask.market} if self.ask.market != "all" else {})
        async with replica.http.get(f"/v1/{path}", params=query, headers={"x-api-key": key}) as answer:
            return answer.status, await answer.read()

    def compare(self, live: dict[str, State]) -> None:
        """Compare the copy with what is live: nothing is missing, and nothing is there that should not be."""
        there = {name: str(state.name) for name, state in live.items() if self.ask.matches(state)}
        wrong = {name: (self.copy.get(name), there.get(name)) for name in self.copy | there}
        wrong = {name: (copied, true) for name, (copied, true) in wrong.items() if copied != true}
        assert not wrong, f"copied and true: {wrong} {self}"
