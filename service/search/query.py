"""Elasticsearch search bodies from typed values, and whether a document that was read by identifier matches them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from mappings.fields import TextForm
from mappings.resource import ChangeGroup, Resource
from mappings.stored_document import change_number, companies_query, feed_key, feed_key_range, split_change
from mappings.visibility import ADDRESS_HIDDEN
from service.scope import Scope

# Queries whose only key is a field. An aggregation of the same name has options instead, `field` among them.
_FIELD_QUERIES = frozenset({"term", "terms", "range", "regexp"})
_FIELD = "field"
# Members that list fields; `sort` may also list objects with a field as their only key.
_FIELD_LISTS = frozenset({"sort", "docvalue_fields", "_source"})


class MissingFields(NamedTuple):
    """Search fields that the live index of a resource lacks until it is rebuilt."""

    resource: str
    fields: frozenset[str]


def used_fields(body: object) -> Iterator[str]:
    """Yield the names of the fields that a search body uses, with repetitions.

    With one that the index lacks a search would match nothing, or return no value, unless Elasticsearch refuses it.
    """
    if isinstance(body, Mapping):
        for key, value in body.items():
            yield from _fields_of_member(key, value)
            yield from used_fields(value)
    elif isinstance(body, list | tuple):
        for element in body:
            yield from used_fields(element)


def _fields_of_member(key: str, value: object) -> Iterator[str]:
    if key in _FIELD_QUERIES and isinstance(value, Mapping):
        yield from (name for name in value if _FIELD not in value)
    elif key == _FIELD and isinstance(value, str):
        yield value
    elif key in _FIELD_LISTS and isinstance(value, list | tuple):
        for element in value:
            yield from element if isinstance(element, Mapping) else (str(element),)


Document = Mapping[str, Any]


def matches(clause: Mapping[str, Any], document: Document) -> bool:
    """Return whether the search fields of a document match a clause; raise KeyError for an unknown kind.

    Documents that are read by identifier pass the clauses of a search, so that no filter is declared twice.
    """
    [(kind, content)] = clause.items()
    return _KINDS[kind](content, document)


def _bool(content: Mapping[str, Any], document: Document) -> bool:
    return all(_OCCURRENCES[name](clauses, document) for name, clauses in content.items())


def _every(clauses: Any, document: Document) -> bool:
    return all(matches(clause, document) for clause in _list(clauses))


def _none(clauses: Any, document: Document) -> bool:
    return not any(matches(clause, document) for clause in _list(clauses))


def _term(content: Mapping[str, Any], document: Document) -> bool:
    [(field, wanted)] = content.items()
    value = document.get(field)
    if isinstance(value, list | tuple):
        return any(_has(part, wanted) for part in value)
    return _has(value, wanted)


def _exists(content: Mapping[str, Any], document: Document) -> bool:
    return any(value is not None for value in _list(document.get(content["field"])))


def _has(value: Any, wanted: Any) -> bool:
    """Return whether a value, or a range of numbers, has the wanted one; no value, None, has none."""
    if isinstance(value, dict):
        return bool(value.get("gte", -inf) <= wanted < value.get("lt", inf))
    return value is not None and bool(value == wanted)


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else [value]


_OCCURRENCES: dict[str, Callable[[Any, Document], bool]] = {"filter": _every, "must_not": _none}
_KINDS: dict[str, Callable[[Any, Document], bool]] = {"bool": _bool, "term": _term, "exists": _exists}


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
        return identifier if self.scope.single_company is None else feed_key(self.scope.single_company, identifier)

    def filtered(self, clause: Clause) -> Selection:
        return replace(self, clauses=(*self.clauses, clause))

    def query(self, after: str = "") -> Clause:
        """Return the query for the records after the identifier `after`, without tombstones."""
        return {"bool": {"filter": [*scope_clauses(self.scope, after), *self.conditions]}}

    def accepts(self, fields: Mapping[str, Any]) -> bool:
        """Return whether `query` would find a document with these search fields; raise KeyError as `matches`."""
        if not self.scope.covers(fields.get("company", "")):
            return False
        return all(matches(clause, fields) for clause in self.conditions)

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


HIDDEN_ADDRESS: Clause = term(ADDRESS_HIDDEN, value=True)
# Records of which a seller has ever opted in or out: what they were meanwhile is hidden from some keys.
_DISPLAY = ChangeGroup("display").number
ONCE_WITHHELD: Clause = {
    "range": {"changed": {"gte": change_number(_DISPLAY), "lt": change_number(_DISPLAY + 1)}},
}


def was_withheld(changed: Iterable[int]) -> bool:
    """Whether a document matches `ONCE_WITHHELD`, by its `changed`."""
    return any(split_change(number)[0] == _DISPLAY for number in changed)


def with_shown_address(clause: Clause) -> Clause:
    """Narrow a clause on the address to records whose address may be shown: others must not confirm guesses."""
    return {"bool": {"filter": [clause], "must_not": [HIDDEN_ADDRESS]}}
