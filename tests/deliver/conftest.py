"""Subscriptions over the service of the tests of the feed, delivered within this process."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from brokerage.subscriptions import SubscriptionStore
from service.deliver.process import SHARES, Deliveries, open_deliveries
from service.deliver.settings import DeliverSettings
from service.deliver.signatures import new_secret
from service.deliver.subscriptions import NOW, Progress, Subscription, now_milliseconds
from service.settings import ServiceSettings
from tests.feed.conftest import feed
from tests.feed.feed_client import FeedClient
from tests.indexer.conftest import bench

__all__ = ["bench", "feed"]

SETTINGS = ServiceSettings(
    fresh_seconds=0.0,
    stale_seconds=0.0,
    deadline_seconds=300.0,
    revocation_seconds=1.0,
    of_capabilities=(DeliverSettings(seconds=2.0, allow_private=True),),
)


class Pushed:
    """Subscriptions of an installation, and the process that delivers to them."""

    def __init__(self, feed: FeedClient) -> None:
        self.feed = feed
        self.store = SubscriptionStore(feed.bench.client, feed.bench.connection)

    async def subscribe(self, url: str, key: str = "a", **members: Any) -> Subscription:
        """Create a subscription to what changes from now on, unless `start` says otherwise."""
        positions = await self.store.positions_now(members.get("resources", ()))
        given = {"name": secrets.token_hex(4), "secret": new_secret(), "start": NOW, "positions": positions}
        key_id = self.feed.keys[key][3:13]
        subscription = Subscription(
            id=secrets.token_hex(8), key_id=key_id, url=url, created=now_milliseconds(), **given | members
        )
        await self.store.create(subscription)
        return subscription

    async def progress(self, subscription: Subscription) -> Progress:
        return (await self.store.progress())[subscription.id]

    async def until(self, subscription: Subscription, **members: Any) -> Progress:
        """Wait until the progress of a subscription has these members."""
        async with asyncio.timeout(60.0):
            while True:
                progress = await self.progress(subscription)
                if members.items() <= msgspec.to_builtins(progress).items():
                    return progress
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def delivering(self, settings: ServiceSettings = SETTINGS) -> AsyncIterator[Deliveries]:
        """Deliver all shares within this process."""
        async with open_deliveries(self.feed.bench.connection, settings) as deliveries:
            for share in range(SHARES):
                deliveries.take(share, lambda: True)
            running = asyncio.create_task(deliveries.run())
            try:
                yield deliveries
            finally:
                running.cancel()
                await asyncio.wait([running])


@pytest.fixture
def pushed(feed: FeedClient) -> Pushed:
    return Pushed(feed)
