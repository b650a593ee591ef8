"""Reads the profile of a search: which queries ran, how many documents they touched, what was fetched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Steps of an iterator over documents; `match` is a document that had to be looked at to be ruled out or in.
_STEPS = ("next_doc_count", "advance_count", "match_count")


@dataclass(frozen=True)
class SearchProfile:
    """The profile of a search in an index of one shard."""

    profile: dict[str, Any]
    identifiers: tuple[str, ...]

    @classmethod
    def from_response(cls, answer: dict[str, Any]) -> SearchProfile:
        """Parse a response to a search with `profile`."""
        (shard,) = answer["profile"]["shards"]
        return cls(shard, tuple(hit["_id"] for hit in answer["hits"]["hits"]))

    @property
    def documents_visited(self) -> int:
        """The most documents that any one query of the tree stepped over or looked at."""
        return max(sum(int(node["breakdown"][step]) for step in _STEPS) for node in self._nodes())

    @property
    def queries(self) -> set[str]:
        """The Lucene classes of all queries."""
        return {node["type"] for node in self._nodes()}

    def ranges(self, field: str) -> list[str]:
        """Return the Lucene classes of the queries that are about one field."""
        return [node["type"] for node in self._nodes() if node["description"].startswith(f"{field}:")]

    @property
    def collector(self) -> str:
        """The class that collects the page."""
        (outer,) = self._search()["collector"]
        return str(outer["children"][0]["name"])

    @property
    def sources_loaded(self) -> int:
        """How many sources were read."""
        return int(self.profile["fetch"]["breakdown"]["load_source_count"])

    @property
    def copied_raw(self) -> int:
        """How many sources went into the answer as the bytes that are stored."""
        phases = {child["type"]: child for child in self.profile["fetch"]["children"]}
        return int(phases["FetchSourcePhase"]["debug"]["fast_path"])

    def documents_aggregated(self, name: str) -> int:
        """Return how many documents an aggregation, at any level, was given."""
        nodes = _with_children(self.profile["aggregations"])
        return sum(int(node["breakdown"]["collect_count"]) for node in nodes if node["description"] == name)

    def _search(self) -> dict[str, Any]:
        (search,) = self.profile["searches"]
        found: dict[str, Any] = search
        return found

    def _nodes(self) -> Iterator[dict[str, Any]]:
        return _with_children(self._search()["query"])


def _with_children(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield node
        yield from _with_children(node.get("children", []))
