"""The EDM types of properties, and the conversion of our values to them."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from mappings.fields import FieldKind

if TYPE_CHECKING:
    from collections.abc import Callable

    Converter = Callable[[object], object]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EMPTY_VALUES: tuple[object, ...] = (None, {}, [])


class EdmType(StrEnum):
    """A type of the Entity Data Model (EDM). All but the collection are nullable."""

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
        return self is EdmType.STRINGS

    @property
    def is_decimal(self) -> bool:
        """Whether it is a decimal of any scale."""
        return self is EdmType.DECIMAL


# Untyped fields become strings: a string as it is, any other value as JSON.
EDM_TYPE_BY_KIND: dict[FieldKind, EdmType] = {
    FieldKind.STRING: EdmType.STRING,
    FieldKind.UNTYPED: EdmType.STRING,
    FieldKind.DATE: EdmType.DATE,
    FieldKind.DATE_TIME: EdmType.DATE_TIME,
    FieldKind.UNIX: EdmType.DATE_TIME,
    FieldKind.INTEGER: EdmType.INT64,
    FieldKind.NUMBER: EdmType.DECIMAL,
    FieldKind.BOOLEAN: EdmType.BOOLEAN,
    FieldKind.STRINGS: EdmType.STRINGS,
    FieldKind.UNTYPED_LIST: EdmType.STRINGS,
}


def to_text(value: object) -> str | None:
    """Return a value of any type as a string; None for null and for an empty object or list."""
    if isinstance(value, str):
        return value
    return None if value in _EMPTY_VALUES else msgspec.json.encode(value).decode()


def to_texts(value: object) -> list[str]:
    """Return the elements of a list as strings, without null and empty ones."""
    texts = map(to_text, value) if isinstance(value, list) else ()
    return [text for text in texts if text is not None]


def to_timestamp(milliseconds: int) -> str | None:
    """Return milliseconds since 1970 as an ISO 8601 timestamp in UTC; None beyond the year 9999."""
    try:
        at = _EPOCH + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _unix_to_timestamp(value: object) -> str | None:
    return to_timestamp(value * 1000) if isinstance(value, int) else None


def _identity(value: object) -> object:
    return value


_CONVERTERS: dict[FieldKind, Converter] = {
    FieldKind.STRING: to_text,
    FieldKind.UNTYPED: to_text,
    FieldKind.UNIX: _unix_to_timestamp,
    FieldKind.STRINGS: to_texts,
    FieldKind.UNTYPED_LIST: to_texts,
}


def converter_for(kind: FieldKind) -> Converter:
    """Return the conversion of a field's values to its EDM type (`EDM_TYPE_BY_KIND`)."""
    return _CONVERTERS.get(kind, _identity)
