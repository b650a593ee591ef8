"""Consumers that keep a copy by a snapshot and its changes: only a void token makes them start over."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from mappings import LISTING, SOLD_LISTING
from tests.chaos.machine_control import ControlledReplica
from tests.chaos.machine_model import CHILDREN, LONE
from tests.chaos.machine_queries import FeedQuery
from tests.indexer.expected_state import TeamState

# One loses records that move to another company, the other those that leave the market.
FOLLOWED = {
    LISTING: (
        FeedQuery(LISTING, "child", {}, frozenset(CHILDREN[:1])),
        FeedQuery(LISTING, "two", {}, frozenset((CHILDREN[0], LONE)), "on-market"),
    ),
    SOLD_LISTING: (
        FeedQuery(SOLD_LISTING, "child", {}, frozenset(CHILDREN[:1])),
        FeedQuery(SOLD_LISTING, "two", {}, frozenset((CHILDREN[0], LONE))),
    ),
}


@dataclass
class SnapshotFollower:
    """A copy of what a key may read: names of states by identifier."""

    ask: FeedQuery
    size: int
    token: str = ""
    copy: dict[str, str] = field(default_factory=dict)
    place: int = 0  # the time of the last change, in milliseconds since 1970
    snapshots: int = 0

    async def go_on(self, replica: ControlledReplica, key: str, pages: int) -> None:
        """Read a snapshot, or at most this number of pages of changes."""
        if not self.token:
            await self._begin(replica, key)
        while pages and not await self._page(replica, key):
            pages -= 1

    async def _begin(self, replica: ControlledReplica, key: str) -> None:
        status, body = await self._get(replica, key, f"snapshot/{self.ask.resource.alias}", {})
        assert status == 200, body
        head, *lines, tail = [orjson.loads(line) for line in body.splitlines()]
        assert head["count"] == tail["count"] == len(lines), f"not whole: {body!r}"
        self.copy = {line["id"]: line["record"]["ListingID"] for line in lines}
        self.token, self.place, self.snapshots = head["token"], 0, self.snapshots + 1

    async def _page(self, replica: ControlledReplica, key: str) -> bool:
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
        assert change["sequence"] >= self.place, f"before the last change: {change} {self}"
        self.place = change["sequence"]
        if "reason" in change:
            self.copy.pop(change["id"], None)
        else:
            self.copy[change["id"]] = change["record"]["ListingID"]

    async def _get(
        self, replica: ControlledReplica, key: str, path: str, parameters: dict[str, str]
    ) -> tuple[int, bytes]:
        query = parameters | ({"market_status": self.ask.market} if self.ask.market != "all" else {})
        async with replica.http.get(f"/v1/{path}", params=query, headers={"x-api-key": key}) as answer:
            return answer.status, await answer.read()

    def compare(self, live: dict[str, TeamState]) -> None:
        """Compare the copy with the live records: none are missing and none are superfluous."""
        there = {name: str(state.name) for name, state in live.items() if self.ask.matches(state)}
        wrong = {name: (self.copy.get(name), there.get(name)) for name in self.copy | there}
        wrong = {name: (copied, true) for name, (copied, true) in wrong.items() if copied != true}
        assert not wrong, f"copied and true: {wrong} {self}"
