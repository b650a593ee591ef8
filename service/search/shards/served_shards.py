"""What a search asks of an index with several shards: which shards, and which copies of records that changed theirs.

A search that is routed by the ranges of a generation goes through an alias that this generation has only while it is
live. After a swap the search fails, the ranges are read again, and it is repeated: it never asks the wrong shard.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mappings.generations import served_alias
from mappings.shards.ranges import ShardRanges, read_ranges
from mappings.shards.visibility import LEFT_QUERY, hidden_query
from mappings.stored_document import feed_key
from service.errors import EngineUnavailable
from service.search.query import Body, Clause
from service.search.reads.matching import matches

# Scopes of more companies ask all shards: to find theirs would take longer.
MAX_COMPANIES = 64


class NoLongerServed(EngineUnavailable):
    """The generation that a search was routed for has been replaced."""


class OneShard(NamedTuple):
    """The shard of a generation that has a feed key."""

    served: ServedShards
    key: str


class Reach(NamedTuple):
    """The companies that a search may read, None for all, and the sequence of the mark that it sees records at.

    `sequence` is None for the latest state. With `only`, the search asks that shard, and fails with NoLongerServed
    after a swap, instead of being repeated.
    """

    companies: Collection[str] | None = None
    sequence: int | None = None
    only: OneShard | None = None


EVERYTHING = Reach()


@dataclass(frozen=True)
class ServedShards:
    """The live generation behind an alias, if it has several shards.

    `target` is the alias to search through. Without one that is removed by a swap, searches are not routed. `index` is
    the name of the generation.
    """

    index: str
    target: str
    ranges: ShardRanges
    is_routed: bool

    def routing(self, reach: Reach) -> str:
        """Return the parameter of a request that chooses the shards, after `&`; empty for all."""
        shards = self._shards(reach) if self.is_routed else None
        return "" if shards is None else f"&routing={','.join(self.ranges.routings[shard] for shard in shards)}"

    def _shards(self, reach: Reach) -> Collection[int] | None:
        if reach.only is not None:
            return [self.ranges.shard(reach.only.key)]
        if not reach.companies or len(reach.companies) > MAX_COMPANIES:
            return None
        shards = self.ranges.companies_shards(reach.companies)
        return None if len(shards) == self.ranges.count else shards

    def record_routings(self, identifier: str, companies: Collection[str] | None) -> Collection[str]:
        """Return the routing values of the shards that can have a record of some companies, all without any."""
        if not companies or len(companies) > MAX_COMPANIES:
            return self.ranges.routings
        return {self.ranges.routings[self.ranges.shard(feed_key(company, identifier))] for company in companies}

    def spans_shards(self, company: str) -> bool:
        """Whether the records of a company are in several shards that can be asked one by one."""
        return self.is_routed and len(self.ranges.company_shards(company)) > 1

    def visible(self, body: Mapping[str, Any], reach: Reach) -> Body:
        """Return a body that finds of each record the copy that is served at the mark."""
        return {**body, "query": visible_query(body["query"], reach)}

    def shows(self, fields: Mapping[str, Any], reach: Reach) -> bool:
        """Return whether a document with these search fields is the copy that `visible` finds."""
        return not matches(_unseen(reach), fields)

    def end(self, key: str) -> str | None:
        """Return the first feed key of the shard after the one that has a key, None after the last."""
        return next((cut for cut in self.ranges.cuts if cut > key), None)


def visible_query(query: Clause, reach: Reach) -> Clause:
    """Return a query for the copies that are served; only for an index of several shards."""
    return {"bool": {"filter": [query], "must_not": [_unseen(reach)]}}


def _unseen(reach: Reach) -> Mapping[str, Any]:
    return LEFT_QUERY if reach.sequence is None else hidden_query(reach.sequence)


def served_shards(alias: str, indices: Mapping[str, Any]) -> ServedShards | None:
    """Return the shards behind an alias, by its index as Elasticsearch describes it; None for one shard, or no index.

    Raises ValueError if the ranges are not valid.
    """
    if len(indices) != 1:
        return None
    [(index, facts)] = indices.items()
    ranges = read_ranges(facts["mappings"].get("_meta", {}))
    if not ranges.is_routed:
        return None
    target = served_alias(index)
    is_routed = target in facts["aliases"]
    return ServedShards(index, target if is_routed else alias, ranges, is_routed)
