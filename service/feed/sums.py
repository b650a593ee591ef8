"""Hashes of records added up by Elasticsearch, in two halves of 32 bits: its sums are exact up to 2**53."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mappings.digest import BUCKETS, COARSE_BUCKETS, Digest

if TYPE_CHECKING:
    from service.query import Body, Clause

SUMS = {name: {"sum": {"field": name}} for name in ("proof_high", "proof_low")}
_LIMB = 2**32
_MODULUS = 2**64


class _Value(msgspec.Struct):
    value: float


class Sums(msgspec.Struct):
    """What Elasticsearch says of some records together."""

    doc_count: int
    proof_high: _Value
    proof_low: _Value

    @property
    def digest(self) -> Digest:
        """Their digest; sums are whole numbers below 2**53."""
        total = (int(self.proof_high.value) * _LIMB + int(self.proof_low.value)) % _MODULUS
        return Digest(self.doc_count, total)


def whole_body(query: Clause) -> Body:
    """Return the body that adds up all that a query matches, by buckets: one sum of too many would not be exact."""
    buckets = {"histogram": {"field": "bucket", "interval": BUCKETS // COARSE_BUCKETS}, "aggs": SUMS}
    return {"size": 0, "track_total_hits": False, "query": query, "aggs": {"buckets": buckets}}


def whole(answer: dict[str, Any]) -> Digest:
    """Return the digest of the answer to `whole_body`."""
    read = msgspec.convert(answer["aggregations"]["buckets"]["buckets"], list[Sums])
    return sum((each.digest for each in read), Digest())
