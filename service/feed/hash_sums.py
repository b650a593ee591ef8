"""Sums of record hashes computed by Elasticsearch, in halves of 32 bits: its sums are exact up to 2**53."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mappings.digest import BUCKETS, COARSE_BUCKETS, Digest

if TYPE_CHECKING:
    from mappings.shown_content import ShownContent
    from service.search.query import Body, Clause

_HALF_MODULUS = 2**32
_MODULUS = 2**64


class _SumValue(msgspec.Struct):
    value: float


class HashSums(msgspec.Struct):
    """The aggregated hashes of a set of records."""

    doc_count: int
    proof_high: _SumValue
    proof_low: _SumValue

    @property
    def digest(self) -> Digest:
        """The digest of these records."""
        total = (int(self.proof_high.value) * _HALF_MODULUS + int(self.proof_low.value)) % _MODULUS
        return Digest(self.doc_count, total)


def sum_aggregations(content: ShownContent) -> Body:
    """Return the aggregations of `HashSums`."""
    halves = {"proof_high": content.proof_high, "proof_low": content.proof_low}
    return {name: {"sum": {"field": field}} for name, field in halves.items()}


def digest_body(query: Clause, content: ShownContent) -> Body:
    """Return the body that sums the hashes of all matches, by bucket: a single sum could exceed 2**53."""
    sums = sum_aggregations(content)
    buckets = {"histogram": {"field": "bucket", "interval": BUCKETS // COARSE_BUCKETS}, "aggs": sums}
    return {"size": 0, "track_total_hits": False, "query": query, "aggs": {"buckets": buckets}}


def parse_digest(response: dict[str, Any]) -> Digest:
    """Return the digest from the response to `digest_body`."""
    sums = msgspec.convert(response["aggregations"]["buckets"]["buckets"], list[HashSums])
    return sum((bucket.digest for bucket in sums), Digest())
