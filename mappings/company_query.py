"""The query for the documents of some companies, however many."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

# The most that Elasticsearch allows in one `terms` query (`index.max_terms_count`).
MAX_TERMS = 65_536
# Large scopes are few, the same for many requests, and take a millisecond to sort.
_KEPT_SCOPES = 64


def companies_query(companies: frozenset[str]) -> dict[str, Any]:
    """Return the query for the documents of these companies, tombstones included."""
    names = sorted_companies(companies)
    parts = [[*names[start : start + MAX_TERMS]] for start in range(0, len(names), MAX_TERMS)] or [[]]
    queries: list[dict[str, Any]] = [{"terms": {"company": part}} for part in parts]
    return queries[0] if len(queries) == 1 else {"bool": {"should": queries}}


@lru_cache(_KEPT_SCOPES)
def sorted_companies(companies: frozenset[str]) -> tuple[str, ...]:
    """Return the companies in order."""
    return tuple(sorted(companies))
