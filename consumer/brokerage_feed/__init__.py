"""A client of the API that keeps a complete, current and verified copy of everything that a key may read."""

from brokerage_feed.deliveries import Delivery, DeliveryRejected, delivery_app, verify_delivery
from brokerage_feed.errors import FeedError, FeedRequestRejected, FeedUnavailable, TokenExpired
from brokerage_feed.feed import Feed
from brokerage_feed.limits import FeedLimits
from brokerage_feed.messages import Change, ChangeBatch, DigestResponse, Previous, SnapshotHeader, SnapshotRecord
from brokerage_feed.sync_feed import SyncFeed

__all__ = [
    "Change",
    "ChangeBatch",
    "Delivery",
    "DeliveryRejected",
    "DigestResponse",
    "Feed",
    "FeedError",
    "FeedLimits",
    "FeedRequestRejected",
    "FeedUnavailable",
    "Previous",
    "SnapshotHeader",
    "SnapshotRecord",
    "SyncFeed",
    "TokenExpired",
    "delivery_app",
    "verify_delivery",
]
