"""Build Elasticsearch search bodies from typed values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mappings.resource import Resource
from mappings.stored_document import companies_query, feed_key, feed_key_range
from mappings.values.text_forms import TextForm
from service.scope import Scope
from service.search.reads.matching import matches

Clause = dict[str, object]
Body = dict[str, object]

DEFAULT_WINDOW_SECONDS = 7 * 24 * 3600
# A bound that moves once a minute keeps the filter the same for a minute, so that Elasticsearch can cache it.
_WINDOW_ROUNDING_SECONDS = 60


def term(field: str, value: object) -> Clause:
    """Match documents whose field is the value."""
    return {"term": {field: value}}


def by_id(identifier: str) -> Clause:
    """Match the record with this identifier by `_id`: the field `id` is for sorting and ranges only."""
    return term_in_any_spelling("_id", identifier)


def term_in_any_spelling(field: str, identifier: str) -> Clause:
    """Match documents whose field is an identifier in any of its spellings."""
    names = spellings(identifier)
    return terms(field, names) if len(names) > 1 else term(field, identifier)


def spellings(identifier: str) -> tuple[str, ...]:
    """Return an identifier, and a UUID also in lower and in upper case: sources write it in either."""
    lower = TextForm.UUID.canonical(identifier)
    return (identifier,) if lower is None else tuple(dict.fromkeys((identifier, lower, lower.upper())))


def term_in_any_case(field: str, value: str) -> Clause:
    """Match documents whose field is the value, with ASCII letters in any case."""
    return {"term": {field: {"value": value, "case_insensitive": True}}}


def terms(field: str, values: Iterable[object]) -> Clause:
    """Match documents whose field is one of the values."""
    return {"terms": {field: list(values)}}


def at_or_after(field: str, second: int) -> Clause:
    """Match times at or after a second: the boundary second is returned again rather than lost."""
    return {"range": {field: {"gte": second * 1000}}}


def at_or_before(field: str, second: int) -> Clause:
    """Match times at or before a second."""
    return {"range": {field: {"lte": second * 1000}}}


def match_any(*clauses: Clause) -> Clause:
    """Match documents that match at least one clause."""
    return clauses[0] if len(clauses) == 1 else {"bool": {"should": list(clauses)}}


def match_none(*clauses: Clause) -> Clause:
    """Match documents that match no clause."""
    return {"bool": {"must_not": list(clauses)}}


def lacks_field(field: str) -> Clause:
    """Match documents without the field."""
    return match_none({"exists": {"field": field}})


def window_start() -> int:
    """Return the unix second at which the default window of seven days starts."""
    start = int(time.time()) - DEFAULT_WINDOW_SECONDS
    return start - start % _WINDOW_ROUNDING_SECONDS


@dataclass(frozen=True)
class Selection:
    """The records that a request selects: of a resource, within a scope, matching every clause."""

    resource: Resource
    scope: Scope
    clauses: tuple[Clause, ...] = ()

    @property
    def sort_field(self) -> str:
        """The sort field; within one company the feed key, which is the index sort."""
        return "id" if self.scope.single_company is None else "feed_key"

    def sort_value(self, identifier: str) -> str:
        """Return the sort value of a record."""
        return identifier if self.scope.single_company is None else feed_key(self.scope.single_company, identifier)

    def filtered(self, clause: Clause) -> Selection:
        """Return the selection narrowed by a clause."""
        return replace(self, clauses=(*self.clauses, clause))

    def query(self, after: str = "") -> Clause:
        """Return the query for the records after the identifier `after`, without tombstones."""
        return {"bool": {"filter": [*scope_clauses(self.scope, after), *self.conditions]}}

    def accepts(self, fields: Mapping[str, Any]) -> bool:
        """Return whether `query` would find a document with these search fields; raise KeyError as `matches`."""
        is_covered = self.scope.covers(fields.get("company", ""))
        return is_covered and all(matches(clause, fields) for clause in self.conditions)

    @property
    def conditions(self) -> tuple[Clause, ...]:
        """The clauses besides those for the scope: no tombstones, and the selection's own."""
        return (term("deleted", value=False), *self.clauses)


def page_body(selection: Selection, size: int, after: str = "", *, timestamps_only: bool = False) -> Body:
    """Return the body for `size` records after `after`; `timestamps_only` reads doc values instead of records."""
    return {
        "size": size,
        "query": selection.query(after),
        "sort": [selection.sort_field],
        **(_doc_value_options(selection.resource) if timestamps_only else {}),
    }


def walk_body(selection: Selection, size: int, after: str | None, *, timestamps_only: bool = False) -> Body:
    """Return the body for one page of a cursor walk, after the identifier `after`.

    It requests one record more than the page holds, which decides FinalPage. `search_after` sets the position; the
    range in the query lets the search start there, so that it costs the same at any depth.
    """
    body = page_body(selection, size + 1, after or "", timestamps_only=timestamps_only) | {"track_total_hits": False}
    return body | ({"search_after": [selection.sort_value(after)]} if after else {})


def numbered_body(selection: Selection, offset: int, size: int, *, timestamps_only: bool = False) -> Body:
    """Return the body for `size` records from `offset`, with the total."""
    return page_body(selection, size, timestamps_only=timestamps_only) | {"from": offset, "track_total_hits": True}


def scope_clauses(scope: Scope, after: str = "") -> list[Clause]:
    """Restrict to the scope, after `after`; for one company a single range does both and seeks in the sorted index."""
    if scope.single_company is not None:
        return [{"range": {"feed_key": feed_key_range(scope.single_company, after)}}]
    companies = [] if scope.companies is None else [companies_query(scope.companies)]
    return [*companies, {"range": {"id": {"gt": after}}}] if after else companies


def _doc_value_options(resource: Resource) -> Body:
    # Without stored fields nothing is read from the blocks that hold the records; the id is a doc value too.
    return {"stored_fields": "_none_", "docvalue_fields": [*resource.timestamps.values(), "clock", "modified"]}
