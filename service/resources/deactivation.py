"""The filter by `deactivated`: active records, or deactivated ones (decisions, `deactivated`)."""

from collections.abc import Mapping
from typing import Any

from service.request_context import RequestContext
from service.resources.filters import FilterRule
from service.search.query import Clause, at_or_after, lacks_field, window_start


def deactivation_clause(sent: Mapping[str, Any]) -> Clause:
    """Return the clause for `deactivated` and `deactivated_since`."""
    if not sent["deactivated"]:
        return lacks_field("deactivated")
    since = sent["deactivated_since"]
    return at_or_after("deactivated", window_start() if since is None else since)


async def _clauses(call: RequestContext) -> list[Clause]:
    return [deactivation_clause(call.parameters)]


ACTIVITY = FilterRule(parameters=("deactivated", "deactivated_since"), fields=("deactivated",), clauses=_clauses)
