"""The index of the audit: which key was sent which records, when and in which state (decision 37).

A row is what one key was sent of one resource in one state within a few seconds: one page, or several. Its text lists
each page: a line with a TAB, the time and the sequence, then the identifiers, one a line. No identifier contains a TAB
or a line break. The row is found by its first and last identifier; its text decides.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

# The states of a record that was sent; any other is the reason why it left the copy (`service.feed.view`).
LIVE = "live"
EVENT = "event"  # an entry of EntityEvent: the record changed or was deleted
ABSENT = "absent"  # 404: the key requested the record and did not get it

# The kinds of documents.
SENT, SESSION, GAP = "sent", "session", "gap"
# A session that was not renewed for longer has lost its last rows, unless it has ended.
SESSION_SECONDS = 120.0

_UNINDEXED: dict[str, Any] = {"index": False, "doc_values": False}
AUDIT_INDEX_BODY: dict[str, Any] = {
    "settings": {
        "index.number_of_shards": 1,
        "index.auto_expand_replicas": "0-1",
        "index.refresh_interval": "30s",
    },
    "mappings": {
        "dynamic": "strict",
        "properties": {
            "kind": {"type": "keyword"},
            "since": {"type": "date"},
            "until": {"type": "date"},
            # Of a row.
            "key_id": {"type": "keyword", **_UNINDEXED},
            "resource": {"type": "keyword"},
            "state": {"type": "keyword", **_UNINDEXED},
            "unchanged": {"type": "boolean", **_UNINDEXED},
            # Doc values alone: cheap to write, and a search for them is rare.
            "first": {"type": "keyword", "index": False},
            "last": {"type": "keyword", "index": False},
            "pages": {"type": "keyword", **_UNINDEXED},
            # Of a session, a process of the service; and of a gap, what it could not record.
            "session": {"type": "keyword", **_UNINDEXED},
            "has_ended": {"type": "boolean", **_UNINDEXED},
            "lost": {"type": "long", **_UNINDEXED},
        },
    },
}


class SentPage(NamedTuple):
    """When a record was sent, in milliseconds since 1970, and a sequence that the page was at least as new as."""

    at: int
    sequence: int


def encode_page(page: SentPage, identifiers: Iterable[str]) -> str:
    """Return the text of one page; those of several pages are joined."""
    return "\t{} {}\n{}\n".format(*page, "\n".join(identifiers))


def pages_with(pages: str, identifiers: Collection[str]) -> Iterator[SentPage]:
    """Yield the pages of a row that list one of the identifiers."""
    if not any(f"\n{identifier}\n" in pages for identifier in identifiers):
        return
    for text in pages.split("\t")[1:]:
        head, *listed = text.split("\n")
        if not set(identifiers).isdisjoint(listed):
            at, sequence = head.split(" ")
            yield SentPage(int(at), int(sequence))


def holding_clauses(resource: str, identifiers: Sequence[str]) -> list[dict[str, Any]]:
    """Return the clauses for the rows that may list one of the identifiers."""
    ranges = [
        {"bool": {"filter": [{"range": {"first": {"lte": name}}}, {"range": {"last": {"gte": name}}}]}}
        for name in identifiers
    ]
    return [{"term": {"kind": SENT}}, {"term": {"resource": resource}}, {"bool": {"should": ranges}}]
