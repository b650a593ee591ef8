"""Retention of tombstones: after it, no late update is expected and no consumer is promised to receive them."""

from typing import Any

from indexer.clock import now_milliseconds
from indexer.context import IndexerContext
from indexer.indices.scan import IndexRow

_DAY_MILLISECONDS = 86_400_000


def expired_tombstones(context: IndexerContext) -> dict[str, Any]:
    """Return the query for tombstones that are older than BROKERAGE_TOMBSTONE_DAYS."""
    return {
        "bool": {"filter": [{"term": {"deleted": True}}, {"range": {"clock": {"lt": _oldest_kept_clock(context)}}}]}
    }


def is_expired_tombstone(context: IndexerContext, row: IndexRow) -> bool:
    """Whether a row is a tombstone that is no longer kept."""
    return row.deleted and row.clock < _oldest_kept_clock(context)


def _oldest_kept_clock(context: IndexerContext) -> int:
    return now_milliseconds() - int(context.settings.tombstone_days * _DAY_MILLISECONDS)
