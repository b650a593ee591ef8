"""Consumers that keep a copy: by tokens, by watermarks, and with the client of the product.

Each `read` returns whether the consumer believes that its copy is current. Refusals are errors that a consumer sees.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson

from brokerage_feed.copy_updater import CopyUpdater
from brokerage_feed.errors import FeedRequestRejected, FeedUnavailable
from brokerage_feed.feed import Feed
from brokerage_feed.sqlite_copy import SqliteCopy
from mappings import Resource
from tests.disasters.disaster_run import RunLog
from tests.indexer.expected_state import TeamState
from tests.simulation.control import ControlledReplica
from tests.simulation.copies import Gone, Refused, SnapshotCopy, differences
from tests.simulation.history import FEEDS
from tests.simulation.model import FeedQuery

Named = dict[str, str]  # names of states by identifier

# The key is not known, the position is void, Elasticsearch has no answer.
_REFUSALS = frozenset({401, 410, 503, 504})
_BEGINNING = 1  # second
_MOST_PAGES = 1_000


class Reader(Protocol):
    """A consumer of some resources."""

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that it copies."""

    async def read(self, replica: ControlledReplica, keys: dict[str, str], pages: float) -> bool:
        """Read at most this number of pages; return whether the copy is believed to be current."""

    def missing(self, resource: Resource, served: Named) -> dict[str, Any]:
        """Return how the copy differs from what is served: served and copied name by identifier."""

    def start_over(self) -> None:
        """Start over, as operators ask those to who cannot notice themselves that records went back."""


@dataclass
class HttpReader:
    """Requests of one key, whose refusals are logged."""

    ask: FeedQuery
    size: int
    log: RunLog = field(repr=False)

    @property
    def resources(self) -> tuple[Resource, ...]:
        return (self.ask.resource,)

    async def get(
        self, replica: ControlledReplica, keys: dict[str, str], path: str, query: dict[str, str]
    ) -> tuple[bytes, str | None]:
        """Return the body and the watermark; raise Refused, or Gone where a position is void."""
        status, body, headers = await replica.ask(keys[self.ask.key], path, query)
        if status in _REFUSALS:
            self.log.add(f"refused with {status}", f"{path} {query} {body.decode()}")
            raise (Gone if status == 410 else Refused)(status)
        assert status == 200, body
        return body, headers.get("X-Next-Updated-Since")

    def wanted(self, served: Named) -> Named:
        return {name: state for name, state in served.items() if self.ask.matches(TeamState(0, state))}


@dataclass
class TokenFollower(HttpReader):
    """Takes a snapshot, then changes since its token; a 410 makes it start over."""

    def __post_init__(self) -> None:
        self.copy = SnapshotCopy(self.ask.resource.alias, self.size, self.ask.followed)

    async def read(self, replica: ControlledReplica, keys: dict[str, str], pages: float) -> bool:
        """Take a snapshot if there is no token, then read changes."""

        async def get(path: str, query: dict[str, str]) -> bytes:
            return (await self.get(replica, keys, path, query))[0]

        try:
            return await self.copy.read(get, min(pages, _MOST_PAGES))
        except Refused:
            return False

    def missing(self, _resource: Resource, served: Named) -> dict[str, Any]:
        """Compare in both directions: deletions are part of the feed."""
        return differences(self.wanted(served), self.copy.records)

    def start_over(self) -> None:
        """Do nothing: tokens must notice by themselves."""


@dataclass
class WatermarkPoller(HttpReader):
    """Walks the records since the watermark of its previous walk."""

    watermark: int = _BEGINNING
    next_watermark: int = _BEGINNING
    cursor: str = ""
    copy: Named = field(default_factory=dict)

    async def read(self, replica: ControlledReplica, keys: dict[str, str], pages: float) -> bool:
        """Continue the walk, or start one. A walk through which records changed is not believed to be current."""
        is_whole = not self.cursor
        try:
            while pages > 0:
                if await self._page(replica, keys):
                    return is_whole
                pages -= 1
        except Gone:
            self.start_over()
        except Refused:
            pass
        return False

    async def _page(self, replica: ControlledReplica, keys: dict[str, str]) -> bool:
        query = {"updated_since": str(self.watermark), "page_size": str(self.size), **self.ask.query}
        query |= {"last_platform_listing_id": self.cursor} if self.cursor else {}
        body, watermark = await self.get(replica, keys, self.ask.resource.alias, query)
        page = orjson.loads(body)
        if not self.cursor:
            # Without a watermark, as while the control index is lost, the next walk repeats this one.
            self.next_watermark = int(watermark) if watermark else self.watermark
        names = [(one["PlatformListingId"], one["ListingID"]) for one in page["Listings"]]
        self.copy |= dict(names)
        self.cursor = names[-1][0] if names else ""
        if page["FinalPage"]:
            self.watermark, self.cursor = self.next_watermark, ""
        return bool(page["FinalPage"])

    def missing(self, _resource: Resource, served: Named) -> dict[str, Any]:
        """Compare what is served only: walks do not name deletions."""
        wanted = self.wanted(served)
        return differences(wanted, {name: self.copy[name] for name in wanted if name in self.copy})

    def start_over(self) -> None:
        """Forget copy and watermark."""
        self.copy, self.watermark, self.cursor = {}, _BEGINNING, ""


@dataclass
class PullClient:
    """`brokerage_feed.Feed` with a copy on disk, as `brokerage pull --no-verify` uses it."""

    folder: Path
    log: RunLog = field(repr=False)
    resources: tuple[Resource, ...] = FEEDS
    is_rejected: bool = False

    async def read(self, replica: ControlledReplica, keys: dict[str, str], _pages: float) -> bool:
        """Catch up with all resources."""
        names = [resource.alias for resource in self.resources]
        with SqliteCopy(self.folder, names, "") as copy:
            async with Feed(str(replica.http.make_url("")), keys["all"], attempts=2) as feed:
                updater = CopyUpdater(feed, copy, names, lambda _: None)
                try:
                    await updater.catch_up()
                except (FeedUnavailable, FeedRequestRejected) as error:
                    self.log.add(f"pull, {type(error).__name__}", error)
                    return False
        # A resource that was never loaded is named as absent, not as current.
        return updater.present == names

    def missing(self, resource: Resource, served: Named) -> dict[str, Any]:
        """Compare in both directions."""
        with SqliteCopy(self.folder, [followed.alias for followed in self.resources], "") as copy:
            rows = {row.id: orjson.loads(row.record)["ListingID"] for row in copy.rows(resource.alias)}
        return differences(served, rows)

    def start_over(self) -> None:
        """Do nothing: the client must notice by itself."""
