"""The EDM types of properties, and the conversion of our values to them.

The types are those of our fields, or of the Data Dictionary where it has another. A value that does not fit is null.
"""

import datetime as dt
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from math import floor

from mappings.data_dictionary import DictionaryType
from mappings.fields import FieldKind, number_in, text_in


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
    def is_timestamp(self) -> bool:
        return self is EdmType.DATE_TIME

    @property
    def is_decimal(self) -> bool:
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

EDM_TYPE_BY_DICTIONARY_TYPE: dict[DictionaryType, EdmType] = {
    "Collection": EdmType.STRINGS,
    "DateTimeOffset": EdmType.DATE_TIME,
    "Decimal": EdmType.DECIMAL,
    "Int64": EdmType.INT64,
}


Converter = Callable[[object], object]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def to_texts(value: object) -> list[str]:
    """Return the elements of a list as strings, without null and empty ones."""
    texts = map(text_in, value) if isinstance(value, list) else ()
    return [text for text in texts if text is not None]


def to_split_texts(value: object) -> list[str]:
    """Return the elements of a list, or of a text between its commas."""
    parts = value.split(",") if isinstance(value, str) else value
    return [text.strip() for text in to_texts(parts) if text.strip()]


def to_timestamp(milliseconds: int) -> str | None:
    """Return milliseconds since 1970 as an ISO 8601 timestamp in UTC; None beyond the year 9999."""
    seconds, fraction = divmod(milliseconds, 1000)
    text = _second_as_text(seconds)
    return text and f"{text}.{fraction:03d}Z"


# Records that were written together have the same second.
@lru_cache(4096)
def _second_as_text(seconds: int) -> str | None:
    try:
        at = _EPOCH + dt.timedelta(seconds=seconds)
    except OverflowError:
        return None
    return at.replace(tzinfo=None).isoformat()


def _unix_to_timestamp(value: object) -> str | None:
    return to_timestamp(value * 1000) if isinstance(value, int) else None


def _date_to_timestamp(value: object) -> str | None:
    """Return the start of a day in UTC."""
    return f"{value}T00:00:00Z" if isinstance(value, str) else None


def _text_to_timestamp(value: object) -> str | None:
    """Return an ISO 8601 date or date-time as a timestamp in UTC, which is assumed if there is no offset."""
    return _timestamp_of(value) if isinstance(value, str) and value.isascii() else None


# Most are dates, which many records share.
@lru_cache(4096)
def _timestamp_of(text: str) -> str | None:
    try:
        at = dt.datetime.fromisoformat(text)
        in_utc = at.replace(tzinfo=at.tzinfo or dt.UTC).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None
    return in_utc.isoformat().replace("+00:00", "Z")


def _whole(value: object) -> int | None:
    """Return a number, rounded half up."""
    number = number_in(value)
    return None if number is None else floor(number + 0.5)


_BY_KIND: dict[FieldKind, Converter] = {
    FieldKind.UNTYPED: text_in,
    FieldKind.UNIX: _unix_to_timestamp,
    FieldKind.STRINGS: to_texts,
    FieldKind.UNTYPED_LIST: to_texts,
}
_BY_TYPE: dict[tuple[FieldKind, EdmType], Converter] = {
    (FieldKind.DATE, EdmType.DATE_TIME): _date_to_timestamp,
    (FieldKind.STRING, EdmType.DATE_TIME): _text_to_timestamp,
    (FieldKind.STRING, EdmType.DECIMAL): number_in,
    (FieldKind.UNTYPED, EdmType.DECIMAL): number_in,
    (FieldKind.UNTYPED, EdmType.INT64): _whole,
    (FieldKind.UNTYPED, EdmType.STRINGS): to_split_texts,
}


def converter_for(kind: FieldKind, edm: EdmType) -> Converter | None:
    """Return the conversion of a field's values to an EDM type, None if they need none."""
    return _BY_KIND.get(kind) if EDM_TYPE_BY_KIND[kind] is edm else _BY_TYPE.get((kind, edm))
