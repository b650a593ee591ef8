"""Converters from a value of a source to the type of one of our fields.

Each converter accepts any JSON value and returns None for null, an empty text or a masked one. It raises
UnmappableValue for a value that the type cannot hold.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from math import isfinite

from indexer.reso.mapping.date_times import to_date, to_timestamp, to_unix_seconds
from indexer.reso.mapping.source_values import UnmappableValue, clean_text, describe_value, is_printable_integer
from mappings.fields import FieldKind
from mappings.record_type import MAX_SAFE_INTEGER

ValueConverter = Callable[[object], object | None]

# The largest 32-bit integer: clients may store our integers in that type.
MAX_NUMBER = 2_147_483_647
# Elasticsearch rejects a keyword of more than 32,766 bytes; a character has up to four.
_MAX_SEARCHABLE_CHARACTERS = 8_000
_NUMBER = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")
_BOOLEANS = {"true": True, "y": True, "yes": True, "1": True, "false": False, "n": False, "no": False, "0": False}
# Members that may hold the name of a list element that is an object.
_NAME_MEMBERS = ("Name", "Value", "LookupValue")


def to_text(value: object) -> str | None:
    """Return a text: the shortest form of a number, the elements of a list joined by commas."""
    if type(value) is str:
        return clean_text(value)
    if isinstance(value, list):
        return _joined_text(value)
    return _scalar_text(value)


def _scalar_text(value: object) -> str | None:
    """Return the text of a value other than a list."""
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    if isinstance(value, int) and is_printable_integer(value):
        return str(value)
    if isinstance(value, float) and isfinite(value):
        return str(int(value)) if value.is_integer() else f"{Decimal(repr(value)):f}"
    raise UnmappableValue(f"is {describe_value(value)}: not a text")


def to_url(value: object) -> str | None:
    """Return a URL; only texts are accepted."""
    if value is None or isinstance(value, str):
        return None if value is None else clean_text(value)
    raise UnmappableValue(f"is {describe_value(value)}: not a URL")


def _joined_text(values: list[object]) -> str | None:
    texts, reasons = _convert_each(values, _scalar_text)
    joined = ", ".join(texts) or None
    if reasons:
        raise UnmappableValue(reasons[0], joined)
    return joined


def _convert_each(values: list[object], convert: Callable[[object], str | None]) -> tuple[list[str], list[str]]:
    """Return the converted elements, and the reasons why others cannot be converted."""
    texts: list[str] = []
    reasons: list[str] = []
    for value in values:
        try:
            text = convert(value)
        except UnmappableValue as error:
            reasons.append(f"has an element that {error.reason}")
        else:
            if text is not None:
                texts.append(text)
    return texts, reasons


def to_number(value: object) -> float | None:
    """Return a number from 0 to MAX_NUMBER, with its fraction; it may be given as text."""
    if type(value) is int or type(value) is float:
        _require_in_range(value, value)
        return value
    if value is None or (isinstance(value, str) and clean_text(value) is None):
        return None
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()) is None:
        raise UnmappableValue(f"is {describe_value(value)}: not a number")
    exact = Decimal(value.strip())
    _require_in_range(exact, value)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def _require_in_range(size: float | Decimal, value: object) -> None:
    """Raise UnmappableValue for NaN or a number out of range."""
    if size < 0:
        raise UnmappableValue(f"is {describe_value(value)}: less than 0")
    if size > MAX_NUMBER:
        raise UnmappableValue(f"is {describe_value(value)}: more than {MAX_NUMBER}")
    if size != size:  # noqa: PLR0124 - NaN
        raise UnmappableValue(f"is {describe_value(value)}: not a number")


def to_boolean(value: object) -> bool | None:
    """Return a boolean; Y, Yes, 1 and N, No, 0 are accepted in any case."""
    if value is None or isinstance(value, bool):
        return value
    text = _scalar_text(value) if isinstance(value, str | int | float) else describe_value(value)
    if text is None:
        return None
    if (converted := _BOOLEANS.get(text.casefold())) is None:
        raise UnmappableValue(f"is {describe_value(value)}: not a boolean")
    return converted


def to_untyped(value: object) -> str | int | float | None:
    """Return a number unchanged, and any other value as text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            return value
        raise UnmappableValue(f"is {describe_value(value)}: beyond the range of exact integers")
    return to_text(value)


def to_names(value: object) -> list[str] | None:
    """Return the texts of a list or a comma-separated text, or the names of an object's members that are true."""
    if type(value) is list and {*map(type, value)} == {str}:
        return [name for text in value if (name := clean_text(text)) is not None] or None
    if isinstance(value, str):
        return [name for text in value.split(",") if (name := clean_text(text)) is not None] or None
    if isinstance(value, dict):
        value = [name for name, flag in value.items() if flag is True] if _is_flag_object(value) else [value]
    names, reasons = _convert_each(value if isinstance(value, list) else [value], _element_name)
    if reasons:
        raise UnmappableValue(reasons[0], names or None)
    return names or None


def _is_flag_object(value: dict[str, object]) -> bool:
    return all(isinstance(flag, bool) or flag is None for flag in value.values())


def _element_name(value: object) -> str | None:
    """Return the text of an element, or of its one naming member if it is an object."""
    if isinstance(value, dict):
        naming = [name for name in _NAME_MEMBERS if name in value]
        if len(naming) != 1:
            raise UnmappableValue(f"is an object without exactly one of {', '.join(_NAME_MEMBERS)}")
        value = value[naming[0]]
    return _scalar_text(value)


_CONVERTERS: dict[FieldKind, ValueConverter] = {
    FieldKind.STRING: to_text,
    FieldKind.DATE: to_date,
    FieldKind.DATE_TIME: to_timestamp,
    FieldKind.INTEGER: to_number,
    FieldKind.UNIX: to_unix_seconds,
    FieldKind.NUMBER: to_number,
    FieldKind.BOOLEAN: to_boolean,
    FieldKind.UNTYPED: to_untyped,
    FieldKind.STRINGS: to_names,
    FieldKind.UNTYPED_LIST: to_names,
}


def limit_searchable(convert: ValueConverter) -> ValueConverter:
    """Return a converter that rejects texts too long for a keyword field."""

    def convert_limited(value: object) -> object | None:
        if isinstance(text := convert(value), str) and len(text) > _MAX_SEARCHABLE_CHARACTERS:
            raise UnmappableValue(f"has {len(text)} characters: more than {_MAX_SEARCHABLE_CHARACTERS}")
        return text

    return convert_limited


def converter_for(kind: FieldKind) -> ValueConverter:
    """Return the converter to a kind of field; raise KeyError for kinds with members."""
    return _CONVERTERS[kind]
