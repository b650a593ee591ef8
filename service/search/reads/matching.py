"""Whether a document matches a clause, decided by the service as Elasticsearch decides it.

Documents that are read by identifier pass the clauses of a search, so that no filter is declared twice. Only the kinds
of clauses that these reads use are known: with any other the request fails.
"""

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any

Document = Mapping[str, Any]


def matches(clause: Mapping[str, Any], document: Document) -> bool:
    """Return whether the search fields of a document match a clause; raise KeyError for an unknown kind."""
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
    return any(_has(value, wanted) for value in _values(document, field))


def _exists(content: Mapping[str, Any], document: Document) -> bool:
    return any(True for _ in _values(document, content["field"]))


def _has(value: Any, wanted: Any) -> bool:
    """Return whether a value, or a range of numbers, has the wanted one."""
    if isinstance(value, dict):
        return bool(value.get("gte", -inf) <= wanted < value.get("lt", inf))
    return bool(value == wanted)


def _values(document: Document, field: str) -> Iterator[Any]:
    return (value for value in _list(document.get(field)) if value is not None)


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else [value]


_OCCURRENCES: dict[str, Callable[[Any, Document], bool]] = {"filter": _every, "must_not": _none}
_KINDS: dict[str, Callable[[Any, Document], bool]] = {"bool": _bool, "term": _term, "exists": _exists}
