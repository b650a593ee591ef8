"""Several shards in one index: ranges of the feed key, and which copy of a record readers see while it moves.

A generation of several shards has the ranges in the `_meta` of its mapping, under `META_KEY`: n - 1 cut points in
order, and n routing values. Shard i has the feed keys from cut point i - 1, included, to cut point i, excluded.
Writer and reader both route by `ShardRanges`. A generation without this entry has one shard and no routing.

Shards become visible one by one, so no order of writes makes a record leave one shard and appear in another at once.
Until the next rebuild both shards keep a copy, and each says at which sequences of the published mark it is hidden: the
old one from the sequence of the move on (`left` marks it for the indexer), the new one before. A reader that knows the
mark `m` asks for what is not hidden at `m`, and finds every record exactly once, whichever shards were refreshed.
"""

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, pairwise
from typing import Any, NamedTuple

from mappings.stored_document import feed_key, split_at_stamp

META_KEY = "shards"
# Elasticsearch allows no more in one index by default.
MAX_SHARDS = 1024
# The bytes of an index of listings, one copy, for a byte of its source: docs/sizing.md.
INDEX_SHARE = 0.388

_WORD = 0xFFFFFFFF
_FIRST_MULTIPLIER, _SECOND_MULTIPLIER = 0xCC9E2D51, 0x1B873593


@dataclass(frozen=True)
class ShardRanges:
    """The cut points and routing values of one generation; both empty for a generation of one shard."""

    cuts: tuple[str, ...] = ()
    routings: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.cuts) + 1

    @property
    def is_routed(self) -> bool:
        """Whether requests need a routing value, as of several shards."""
        return bool(self.routings)

    @property
    def meta(self) -> dict[str, object]:
        """The entry of a mapping's `_meta`, empty for one shard."""
        return {META_KEY: {"cuts": [*self.cuts], "routings": [*self.routings]}} if self.is_routed else {}

    def shard(self, key: str) -> int:
        return bisect_right(self.cuts, key)

    def routing(self, key: str) -> str | None:
        """Return the routing value of a feed key, None for one shard."""
        return self.routings[self.shard(key)] if self.routings else None

    def company_shards(self, company: str, after: str = "") -> range:
        """Return the shards with a company's feed keys after the identifier `after`, in the order of the keys."""
        # A company key has neither `:` nor `;`, the character that follows `:`.
        return range(self.shard(feed_key(company, after)), bisect_left(self.cuts, f"{company};") + 1)

    def companies_shards(self, companies: Collection[str]) -> list[int]:
        return sorted({shard for company in companies for shard in self.company_shards(company)})


ONE_SHARD = ShardRanges()


def read_ranges(meta: Mapping[str, Any]) -> ShardRanges:
    """Return the ranges in the `_meta` of a mapping; raise ValueError if they are not valid."""
    entry = meta.get(META_KEY)
    if entry is None:
        return ONE_SHARD
    try:
        cuts, routings = tuple(entry["cuts"]), tuple(entry["routings"])
        is_valid = len(routings) == len(cuts) + 1 > 1 and all(low < high for low, high in pairwise(cuts))
    except (TypeError, KeyError):
        is_valid = False
    if not is_valid:
        raise ValueError(f"The `{META_KEY}` of the mapping's `_meta` are not cut points in order and routing values.")
    return ShardRanges(cuts, routings)


def cut_evenly(sample: Sequence[str], shards: int) -> ShardRanges:
    """Return ranges that hold equally many keys of a sample of feed keys, each key weighing the same.

    With fewer different keys than shards there are fewer ranges.
    """
    keys = sorted(sample)
    wanted = (keys[len(keys) * number // shards] for number in range(1, shards)) if keys else ()
    cuts = sorted({*wanted} - {keys[0]}) if keys else []
    return ShardRanges(tuple(cuts), routing_values(len(cuts) + 1)) if cuts else ONE_SHARD


@cache
def routing_values(shards: int) -> tuple[str, ...]:
    """Return for each shard number, in order, the smallest decimal number that Elasticsearch routes there.

    The index must have as many `number_of_routing_shards` as shards.
    """
    found: dict[int, str] = {}
    for number in count():
        if len(found) == shards:
            break
        found.setdefault(_signed(murmur3(str(number))) % shards, str(number))
    return tuple(found[shard] for shard in range(shards))


def _signed(number: int) -> int:
    return number - 2**32 if number >= 2**31 else number


def murmur3(text: str) -> int:
    """Return Elasticsearch's hash of a routing value, 32 bits, unsigned: MurmurHash3 of its UTF-16 (little-endian)."""
    data = text.encode("utf-16-le")
    mixed, whole = 0, len(data) // 4 * 4
    for (block,) in struct.iter_unpack("<I", data[:whole]):
        mixed = (_rotated(mixed ^ _scrambled(block), 13) * 5 + 0xE6546B64) & _WORD
    mixed ^= _scrambled(int.from_bytes(data[whole:], "little")) ^ len(data)
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    return mixed ^ mixed >> 16


def _scrambled(block: int) -> int:
    return _rotated(block * _FIRST_MULTIPLIER & _WORD, 15) * _SECOND_MULTIPLIER & _WORD


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


HIDDEN, LEFT = "hidden", "left"
# Of the copies in all shards, the ones that the indexer continues from. An index of one shard has no such field.
LEFT_QUERY: Mapping[str, Any] = {"exists": {"field": LEFT}}

# The last members before the stamp.
_FIRST_MEMBER = b',"hidden":['
_MEMBERS = re.compile(rb',"hidden":\[[^\]]*\](?:,"left":true)?\Z')


class Interval(NamedTuple):
    """The sequences from `start`, included, to `end`, excluded; None for no bound."""

    start: int | None
    end: int | None

    @property
    def bounds(self) -> str:
        bounds = {"gte": self.start, "lt": self.end}
        return "{" + ",".join(f'"{name}":{bound}' for name, bound in bounds.items() if bound is not None) + "}"


def read_intervals(values: Iterable[Mapping[str, int]]) -> tuple[Interval, ...]:
    return tuple(Interval(value.get("gte"), value.get("lt")) for value in values)


def hide(source: bytes, intervals: Iterable[Interval], *, has_left: bool = False) -> bytes:
    """Return the source of a copy that is hidden in the given intervals only; `has_left` marks one that was left."""
    before, rest = split_at_stamp(source)
    bounds = ",".join(interval.bounds for interval in intervals)
    members = f',"{HIDDEN}":[{bounds}]' if bounds else ""
    left = f',"{LEFT}":true' if has_left else ""
    return b"".join((_MEMBERS.sub(b"", before), (members + left).encode(), rest))


def unhide(source: bytes) -> bytes:
    """Return the source of a copy for another generation, where it is the only one."""
    return hide(source, ()) if _FIRST_MEMBER in source else source


def hidden_query(sequence: int) -> dict[str, Any]:
    """Return the query for the copies that readers must not see at a sequence of the published mark."""
    return {"term": {HIDDEN: sequence}}
