"""A client of the API that keeps a complete, current and verified copy of everything that a key may read."""

from consumer.errors import FeedError, FeedRequestRejected, FeedUnavailable, TokenExpired
from consumer.feed import Feed
from consumer.messages import Change, ChangeBatch, DigestResponse, SnapshotHeader, SnapshotRecord

__all__ = [
    "Change",
    "ChangeBatch",
    "DigestResponse",
    "Feed",
    "FeedError",
    "FeedRequestRejected",
    "FeedUnavailable",
    "SnapshotHeader",
    "SnapshotRecord",
    "TokenExpired",
]
