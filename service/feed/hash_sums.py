"""Sums of record hashes computed by Elasticsearch, in halves of 32 bits: its sums are exact up to 2**53."""

from typing import Any

import msgspec

from mappings.digest import BUCKETS, COARSE_BUCKETS, Digest
from mappings.shown_content import ShownContent
from service.search.display import HIDDEN_ADDRESS
from service.search.query import Body, Clause

_HALF_MODULUS = 2**32
_MODULUS = 2**64


class _SumValue(msgspec.Struct):
    value: float


class _Halves(msgspec.Struct):
    proof_high: _SumValue
    proof_low: _SumValue

    @property
    def total(self) -> int:
        return int(self.proof_high.value) * _HALF_MODULUS + int(self.proof_low.value)


class _HiddenAddresses(_Halves):
    """The records that hide their address: their hashes that cover it, and those that do not."""

    shown_high: _SumValue
    shown_low: _SumValue

    @property
    def correction(self) -> int:
        return _Halves(self.shown_high, self.shown_low).total - self.total


class HashSums(_Halves):
    """The aggregated hashes of a set of records."""

    doc_count: int
    hidden_addresses: _HiddenAddresses | None = None  # for keys with a display licence

    @property
    def digest(self) -> Digest:
        """The digest of these records."""
        correction = self.hidden_addresses.correction if self.hidden_addresses else 0
        return Digest(self.doc_count, (self.total + correction) % _MODULUS)


def sum_aggregations(content: ShownContent) -> Body:
    """Return the aggregations of `HashSums`."""
    sums = _sums(content, "proof")
    if not content.address:
        return sums
    both = {**sums, **_sums(content.without_address, "shown")}
    return {**sums, "hidden_addresses": {"filter": HIDDEN_ADDRESS, "aggs": both}}


def _sums(content: ShownContent, prefix: str) -> Body:
    halves = {"high": content.proof_high, "low": content.proof_low}
    return {f"{prefix}_{half}": {"sum": {"field": field}} for half, field in halves.items()}


def digest_body(query: Clause, content: ShownContent) -> Body:
    """Return the body that sums the hashes of all matches, by bucket: a single sum could exceed 2**53."""
    sums = sum_aggregations(content)
    buckets = {"histogram": {"field": "bucket", "interval": BUCKETS // COARSE_BUCKETS}, "aggs": sums}
    return {"size": 0, "track_total_hits": False, "query": query, "aggs": {"buckets": buckets}}


def parse_digest(response: dict[str, Any]) -> Digest:
    """Return the digest from the response to `digest_body`."""
    sums = msgspec.convert(response["aggregations"]["buckets"]["buckets"], list[HashSums])
    return sum((bucket.digest for bucket in sums), Digest())
