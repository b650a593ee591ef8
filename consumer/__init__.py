"""A consumer of the API: keeps a copy of what a key may read complete, current and proven."""

from consumer.answers import Change, Digest, Header, Page, Record
from consumer.errors import Away, FeedError, Refused, TokenExpired
from consumer.feed import Feed

__all__ = [
    "Away",
    "Change",
    "Digest",
    "Feed",
    "FeedError",
    "Header",
    "Page",
    "Record",
    "Refused",
    "TokenExpired",
]
