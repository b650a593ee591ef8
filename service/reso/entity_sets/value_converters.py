"""The conversion of our values to EDM types; a value that does not fit its type is null."""

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from math import floor

import msgspec

from mappings.fields import FieldKind
from mappings.values.numbers import number_in
from service.reso.entity_sets.edm_types import EDM_TYPE_BY_KIND, EdmType

Converter = Callable[[object], object]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EMPTY_VALUES: tuple[object, ...] = (None, {}, [])


def to_text(value: object) -> str | None:
    """Return a value of any type as a string; None for null and for an empty object or list."""
    if isinstance(value, str):
        return value
    return None if value in _EMPTY_VALUES else msgspec.json.encode(value).decode()


def to_texts(value: object) -> list[str]:
    """Return the elements of a list as strings, without null and empty ones."""
    texts = map(to_text, value) if isinstance(value, list) else ()
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
    FieldKind.UNTYPED: to_text,
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
