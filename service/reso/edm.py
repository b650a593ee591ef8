"""The types of OData that answers carry, and how values of ours are brought to them."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from mappings.fields import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    Bring = Callable[[object], object]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NOTHING: tuple[object, ...] = (None, {}, [])


class Edm(StrEnum):
    """A type of the Entity Data Model; every one but the collection may be null."""

    STRING = "Edm.String"
    INT64 = "Edm.Int64"
    DECIMAL = "Edm.Decimal"
    BOOLEAN = "Edm.Boolean"
    DATE = "Edm.Date"
    DATE_TIME = "Edm.DateTimeOffset"
    STRINGS = "Collection(Edm.String)"

    @property
    def is_collection(self) -> bool:
        """Whether an absent value is an empty list, and never null."""
        return self is Edm.STRINGS

    @property
    def is_decimal(self) -> bool:
        """Whether it is a number with any fraction."""
        return self is Edm.DECIMAL


# What the contract gives no type is a text: of a text itself, of anything else its JSON. So every value fits.
OF_KIND: dict[Kind, Edm] = {
    Kind.STRING: Edm.STRING,
    Kind.UNTYPED: Edm.STRING,
    Kind.DATE: Edm.DATE,
    Kind.DATE_TIME: Edm.DATE_TIME,
    Kind.UNIX: Edm.DATE_TIME,
    Kind.INTEGER: Edm.INT64,
    Kind.NUMBER: Edm.DECIMAL,
    Kind.BOOLEAN: Edm.BOOLEAN,
    Kind.STRINGS: Edm.STRINGS,
    Kind.UNTYPED_LIST: Edm.STRINGS,
}


def text(value: object) -> str | None:
    """Return a value of any type as a text; None for null and for an empty object or list."""
    if isinstance(value, str):
        return value
    return None if value in _NOTHING else msgspec.json.encode(value).decode()


def texts(value: object) -> list[str]:
    """Return the elements of a list as texts, without those that are none."""
    found = map(text, value) if isinstance(value, list) else ()
    return [each for each in found if each is not None]


def moment(milliseconds: int) -> str | None:
    """Return milliseconds since 1970 as a moment in UTC; None beyond the calendar."""
    try:
        at = _EPOCH + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _second(value: object) -> str | None:
    return moment(value * 1000) if isinstance(value, int) else None


def _as_it_is(value: object) -> object:
    return value


_BRING: dict[Kind, Bring] = {
    Kind.STRING: text,
    Kind.UNTYPED: text,
    Kind.UNIX: _second,
    Kind.STRINGS: texts,
    Kind.UNTYPED_LIST: texts,
}


def bring(kind: Kind) -> Bring:
    """Return what makes a value of ours one of the type that `OF_KIND` names."""
    return _BRING.get(kind, _as_it_is)
