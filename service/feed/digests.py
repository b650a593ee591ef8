"""Digests of the records of a scope, by buckets of their identifiers: added up by Elasticsearch (decision 12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from mappings.digest import Digest
from service.errors import InvalidRequest
from service.feed.lines import content_hex
from service.feed.sums import SUMS, Sums
from service.query import either, term, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.control import Mark
    from mappings.resource import Resource
    from service.feed.view import Kept
    from service.query import Body, Clause

# Hexadecimal digits of a bucket: the first two bytes of a hash.
DIGITS = 4
# One answer of Elasticsearch; a bucket of a resource of 20 million records holds about 300.
MOST_RECORDS = 10_000
# Names by which Elasticsearch tells why a document is in an answer.
_KEPT, _AHEAD = "kept", "ahead"


class Member(msgspec.Struct):
    """A record: its identifier and its content hash, as 16 hexadecimal digits."""

    id: str
    content: str


class Bucket(msgspec.Struct, omit_defaults=True):
    """What lies under one prefix. `unsettled` documents are ahead of what is published."""

    prefix: str
    count: int
    digest: str
    unsettled: int
    records: list[Member] | None = None


@dataclass
class Found:
    """Buckets that are not empty, in order."""

    buckets: list[Bucket] = field(default_factory=list)

    @property
    def total(self) -> Digest:
        """The digest of all of them."""
        return sum((Digest(each.count, int(each.digest, 16)) for each in self.buckets), Digest())

    @property
    def unsettled(self) -> int:
        """How many documents are ahead of what is published."""
        return sum(each.unsettled for each in self.buckets)


def below(prefixes: Sequence[str] | None) -> int:
    """Return how many digits the buckets below some prefixes have."""
    return 2 if prefixes is None else DIGITS


def buckets_body(kept: Kept, resource: Resource, prefixes: Sequence[str] | None, mark: Mark) -> Body:
    """Return the body that adds up the buckets of two digits, or those of four below prefixes of two."""
    live = {"bool": {"filter": _live(kept, resource)}}
    width = 16 ** (DIGITS - below(prefixes))
    return {
        "size": 0,
        "track_total_hits": False,
        "query": _under(kept, prefixes),
        "aggs": {
            "buckets": {
                "histogram": {"field": "bucket", "interval": width, "min_doc_count": 1},
                "aggs": {"live": {"filter": live, "aggs": SUMS}, "unsettled": {"filter": _ahead(mark)}},
            }
        },
    }


def members_body(kept: Kept, resource: Resource, prefixes: Sequence[str], mark: Mark) -> Body:
    """Return the body that reads the records of buckets, and what is ahead of the mark there."""
    shown: list[Clause] = [
        {"bool": {"filter": _live(kept, resource), "_name": _KEPT}},
        {"bool": {"filter": [_ahead(mark)], "_name": _AHEAD}},
    ]
    return {
        "size": MOST_RECORDS + 1,
        "track_total_hits": False,
        "query": {"bool": {"filter": [_under(kept, prefixes), either(*shown)]}},
        "sort": ["feed_key"],
        "stored_fields": "_none_",
        "docvalue_fields": ["id", "content", "bucket"],
    }


def _live(kept: Kept, resource: Resource) -> list[Clause]:
    return [term("deleted", value=False), *kept.clauses(resource)]


def _under(kept: Kept, prefixes: Sequence[str] | None) -> Clause:
    """Match the documents of the scope under some prefixes, tombstones among them."""
    ranges: list[Clause] = [{"range": {"bucket": _bounds(prefix)}} for prefix in prefixes or ()]
    under = [either(*ranges)] if ranges else []
    return {"bool": {"filter": [*within(kept.call.scope), *under]}}


def _bounds(prefix: str) -> dict[str, int]:
    width = 16 ** (DIGITS - len(prefix))
    first = int(prefix, 16) * width
    return {"gte": first, "lt": first + width}


def _ahead(mark: Mark) -> Clause:
    return {"range": {"sequence": {"gt": mark.sequence}}}


class _Ahead(msgspec.Struct):
    doc_count: int


class _Bucket(msgspec.Struct):
    key: float
    live: Sums
    unsettled: _Ahead


def added_up(answer: dict[str, Any], prefixes: Sequence[str] | None) -> Found:
    """Return the buckets of the answer to `buckets_body`."""
    digits = below(prefixes)
    width = 16 ** (DIGITS - digits)
    read = msgspec.convert(answer["aggregations"]["buckets"]["buckets"], list[_Bucket])
    told = [_bucket(each, f"{int(each.key) // width:0{digits}x}") for each in read]
    return Found([bucket for bucket in told if bucket.count or bucket.unsettled])


def _bucket(read: _Bucket, prefix: str) -> Bucket:
    digest = read.live.digest
    return Bucket(prefix, digest.count, f"{digest.total:016x}", read.unsettled.doc_count)


class _Fields(msgspec.Struct):
    id: list[str]
    content: list[int]
    bucket: list[int]


class _Hit(msgspec.Struct):
    fields: _Fields
    matched_queries: list[str] = []


def listed(answer: dict[str, Any]) -> Found:
    """Return the buckets of the answer to `members_body` with their records; raise InvalidRequest for too many."""
    read = msgspec.convert(answer["hits"]["hits"], list[_Hit])
    if len(read) > MOST_RECORDS:
        raise InvalidRequest.of("prefixes", f"these hold more than {MOST_RECORDS:,} records: send fewer at a time.")
    groups = groupby(sorted(read, key=_number), _number)
    return Found([_of_members(f"{number:0{DIGITS}x}", list(hits)) for number, hits in groups])


def _number(hit: _Hit) -> int:
    return hit.fields.bucket[0]


def _of_members(prefix: str, read: list[_Hit]) -> Bucket:
    digest, members = Digest(), list[Member]()
    for fields in (hit.fields for hit in read if _KEPT in hit.matched_queries):
        digest.add(fields.id[0], fields.content[0])
        members.append(Member(fields.id[0], content_hex(fields.content[0])))
    unsettled = sum(_AHEAD in hit.matched_queries for hit in read)
    return Bucket(prefix, digest.count, f"{digest.total:016x}", unsettled, members)
