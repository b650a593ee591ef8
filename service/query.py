"""From typed values to Elasticsearch search bodies. Pure: values in, dictionaries out."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mappings.document import feed_key, feed_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mappings.resource import Resource
    from service.scope import Scope

Clause = dict[str, object]
Body = dict[str, object]

DEFAULT_WINDOW_SECONDS = 7 * 24 * 3600
# A bound that moves once a minute is the same filter for a minute, which Elasticsearch can cache.
_WINDOW_ROUNDING_SECONDS = 60


def term(field: str, value: object) -> Clause:
    """Match documents whose field is the value."""
    return {"term": {field: value}}


def identified(identifier: str) -> Clause:
    """Match the record with this identifier: by `_id`, since the field `id` is for order and ranges only."""
    return term("_id", identifier)


def terms(field: str, values: Iterable[object]) -> Clause:
    """Match documents whose field is one of the values."""
    return {"terms": {field: list(values)}}


def since(field: str, second: int) -> Clause:
    """Match moments at or after a second: the boundary second is answered again rather than lost."""
    return {"range": {field: {"gte": second * 1000}}}


def until(field: str, second: int) -> Clause:
    """Match moments at or before a second."""
    return {"range": {field: {"lte": second * 1000}}}


def either(*clauses: Clause) -> Clause:
    """Match documents that match at least one clause."""
    return clauses[0] if len(clauses) == 1 else {"bool": {"should": list(clauses)}}


def neither(*clauses: Clause) -> Clause:
    """Match documents that match no clause."""
    return {"bool": {"must_not": list(clauses)}}


def absent(field: str) -> Clause:
    """Match documents without the field."""
    return neither({"exists": {"field": field}})


def window_start() -> int:
    """Return the second at which the default window of seven days begins."""
    begins = int(time.time()) - DEFAULT_WINDOW_SECONDS
    return begins - begins % _WINDOW_ROUNDING_SECONDS


@dataclass(frozen=True)
class Selection:
    """The records a request asks for: within a scope, of a resource, matching every clause."""

    resource: Resource
    scope: Scope
    clauses: tuple[Clause, ...] = ()

    @property
    def sort_field(self) -> str:
        """The field that orders the answer; within one company the feed key, which sorts the index itself."""
        return "id" if self.scope.single is None else "feed_key"

    def position(self, identifier: str) -> str:
        """Return the sort value of a record."""
        return identifier if self.scope.single is None else feed_key(self.scope.single, identifier)

    def restricted(self, clause: Clause) -> Selection:
        """Return the records of this selection that match one clause more."""
        return replace(self, clauses=(*self.clauses, clause))

    def query(self, after: str = "") -> Clause:
        """Return the query for the records behind the identifier `after`; tombstones are no records."""
        clauses = [*within(self.scope, after), term("deleted", value=False), *self.clauses]
        return {"bool": {"filter": clauses}}


def page_body(selection: Selection, size: int, after: str = "", *, brief: bool = False) -> Body:
    """Return the body for `size` records behind `after`; `brief` reads doc values for `timestamps_only`, no record."""
    return {
        "size": size,
        "query": selection.query(after),
        "sort": [selection.sort_field],
        **(_brief(selection.resource) if brief else {}),
    }


def walk_body(selection: Selection, size: int, after: str | None, *, brief: bool = False) -> Body:
    """Return the body for one page of a walk, behind the identifier `after`.

    One record more than the page holds is asked for: whether it comes is FinalPage. `search_after` says where to go on;
    it is the range in the query that makes the search begin there, so that it costs the same at any depth.
    """
    body = page_body(selection, size + 1, after or "", brief=brief) | {"track_total_hits": False}
    return body | ({"search_after": [selection.position(after)]} if after else {})


def numbered_body(selection: Selection, offset: int, size: int, *, brief: bool = False) -> Body:
    """Return the body for `size` records from `offset` on, with the count of all records."""
    return page_body(selection, size, brief=brief) | {"from": offset, "track_total_hits": True}


def within(scope: Scope, after: str = "") -> list[Clause]:
    """Restrict to the scope, behind `after`. For one company a single range is both and seeks in the sorted index."""
    if scope.single is not None:
        return [{"range": {"feed_key": feed_range(scope.single, after)}}]
    companies = [] if scope.companies is None else [terms("company", sorted(scope.companies))]
    return [*companies, {"range": {"id": {"gt": after}}}] if after else companies


def _brief(resource: Resource) -> Body:
    # Without stored fields not even the id is read from the blocks that hold the records; it is a doc value too.
    return {"stored_fields": "_none_", "docvalue_fields": [*resource.timestamps.values(), "clock", "modified"]}
