"""Clause builders: the Elasticsearch clause for a parameter's value, as in `clause=at_least("list_price")`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from service.search import query
from service.search.query import Clause

_DAY_SECONDS = 24 * 3600
# The values of absent parameters; a flag sent as false does not filter either.
_NOT_SENT = (None, False)


@dataclass(frozen=True)
class ClauseBuilder:
    """The clause of one parameter: its search field, and the function from value to clause.

    `default` supplies the value of an absent parameter, unless one of the parameters `unless` is sent.
    """

    field: str
    build: Callable[[Any], Clause]
    default: Callable[[], Any] | None = None
    unless: tuple[str, ...] = ()

    def clause(self, value: Any, sent: Mapping[str, Any]) -> Clause | None:
        """Return the clause for a value, None to match all records; `sent` holds the values of all parameters."""
        if not _is_sent(value):
            if self.default is None or any(_is_sent(sent[name]) for name in self.unless):
                return None
            value = self.default()
        return self.build(value)


def _is_sent(value: object) -> bool:
    return not any(value is absent for absent in _NOT_SENT)


def equals(field: str) -> ClauseBuilder:
    """Match records whose field is the value."""
    return ClauseBuilder(field, partial(query.term, field))


def any_of(field: str) -> ClauseBuilder:
    """Match records whose field is one of several values."""
    return ClauseBuilder(field, partial(query.terms, field))


def is_true(field: str) -> ClauseBuilder:
    """Match records whose flag is set, if the parameter is true; false matches all records."""
    return ClauseBuilder(field, partial(query.term, field))


def at_least(field: str) -> ClauseBuilder:
    """Match records whose number is the value or greater."""
    return ClauseBuilder(field, partial(_bounded, field, "gte"))


def at_most(field: str) -> ClauseBuilder:
    """Match records whose number is the value or less."""
    return ClauseBuilder(field, partial(_bounded, field, "lte"))


def since(field: str, *, default: Callable[[], int] | None = None, unless: tuple[str, ...] = ()) -> ClauseBuilder:
    """Match records whose time is at or after a Unix second."""
    return ClauseBuilder(field, partial(query.at_or_after, field), default, unless)


def since_day(field: str, *, default: Callable[[], int] | None = None, unless: tuple[str, ...] = ()) -> ClauseBuilder:
    """Match records whose date is the UTC day of a Unix second or later."""
    return ClauseBuilder(field, partial(_since_day, field), default, unless)


def until(field: str) -> ClauseBuilder:
    """Match records whose time is at or before a Unix second, or whose date is its UTC day or earlier."""
    return ClauseBuilder(field, partial(query.at_or_before, field))


def _bounded(field: str, bound: str, value: float) -> Clause:
    return {"range": {field: {bound: value}}}


def _since_day(field: str, second: int) -> Clause:
    return query.at_or_after(field, second - second % _DAY_SECONDS)
