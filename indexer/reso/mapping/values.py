"""Values of sources, converted to the types of our fields.

Each converter accepts any JSON value and returns None for null, an empty text or a masked one. It raises
UnmappableValue for a value that the type cannot hold. Dates outside the years 1900 to 2200 are unmappable: some
programs write `0001-01-01T00:00:00Z` for null.
"""

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from math import isfinite

from mappings.fields import FieldKind
from mappings.record_schema import MAX_SAFE_INTEGER

# Characters that break JSON consumers, logs or terminals, and lone surrogates.
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# Characters of a text that a reason repeats.
_MAX_SHOWN_CHARACTERS = 40
# Larger integers are described by their size: Python refuses to print more than 4,300 digits.
_MAX_PRINTED_BITS = 256


class UnmappableValue(Exception):
    """A value that our field cannot hold; `partial` is the usable part of it, None if there is none."""

    def __init__(self, reason: str, partial: object = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.partial = partial


def clean_text(value: str) -> str | None:
    """Return a text without control characters and surrounding whitespace.

    None for an empty text and for a masked one: sources replace values that may not be shown with asterisks.
    """
    text = (value if value.isprintable() else _CONTROL_CHARACTERS.sub("", value)).strip()
    return None if not text or (text[0] == "*" and is_masked(text)) else text


def is_masked(text: str) -> bool:
    """Whether a text consists of three or more asterisks."""
    return len(text) >= 3 and not text.strip("*")


def is_printable_integer(number: int) -> bool:
    return number.bit_length() <= _MAX_PRINTED_BITS


def describe_value(value: object) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_SHOWN_CHARACTERS else value[:_MAX_SHOWN_CHARACTERS] + "…")
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return str(value) if is_printable_integer(value) else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    names: dict[type, str] = {dict: "an object", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")


_FIRST_YEAR, _LAST_YEAR = 1900, 2200
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = r"([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?"
_TIME_OF_DAY = re.compile(_TIME)
_TIMESTAMP = re.compile(rf"({_DATE.pattern})[Tt ]{_TIME} ?([Zz]|[+-][0-9]{{2}}:?[0-9]{{2}})?")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = dt.timedelta(seconds=1)
# The end of 2200 in seconds since 1970.
_MAX_UNIX_SECONDS = (dt.datetime(_LAST_YEAR + 1, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _SECOND - 1


def to_date(value: object) -> str | None:
    """Return a date as `YYYY-MM-DD`; of a timestamp, the date part."""
    if (text := _date_text(value)) is None:
        return None
    if _DATE.fullmatch(text):
        _require_valid(dt.date.fromisoformat, text, "date")
        return text
    return _timestamp(text)[:10]


def to_timestamp(value: object) -> str | None:
    """Return a timestamp in ISO 8601 with its offset, Z if the source gives none."""
    text = _date_text(value)
    return None if text is None else _timestamp(text)


def to_datetime(value: object) -> dt.datetime | None:
    """Return a timestamp as a datetime with its offset, UTC if the source gives none."""
    text = _date_text(value)
    return None if text is None else dt.datetime.fromisoformat(_timestamp(text))


def to_unix_seconds(value: object) -> int | None:
    """Return a timestamp in whole seconds since 1970; a number is taken as seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= _MAX_UNIX_SECONDS:
            raise UnmappableValue(f"is {describe_value(value)}: not seconds between 1970 and {_LAST_YEAR}")
        return int(value)
    converted = to_datetime(value)
    return None if converted is None else (converted - _EPOCH) // _SECOND


def to_time_of_day(value: object) -> str | None:
    """Return a time of day as `HH:MM:SS`, None for a timestamp or any other text."""
    text = _date_text(value)
    match = text and _TIME_OF_DAY.fullmatch(text)
    if not match:
        return None
    time = match[1] + (match[2] or ":00")
    _require_valid(dt.time.fromisoformat, time, "time of day")
    return time


def is_without_offset(value: object) -> bool:
    """Whether a value is a timestamp without an offset, that is, in local time."""
    if not isinstance(value, str) or value.endswith("Z"):
        return False
    match = _TIMESTAMP.fullmatch(value.strip())
    return match is not None and match[5] is None


def _date_text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise UnmappableValue(f"is {describe_value(value)}: not a date or timestamp")
    return clean_text(value)


def _timestamp(text: str) -> str:
    if (match := _TIMESTAMP.fullmatch(text)) is None:
        raise UnmappableValue(f"is {describe_value(text)}: not a timestamp such as 2026-11-20T10:00:00Z")
    date, minute, second, fraction, offset = match.groups()
    timestamp = f"{date}T{minute}{second or ':00'}{(fraction or '')[:10]}{_offset(offset)}"
    _require_valid(dt.datetime.fromisoformat, timestamp, "timestamp")
    return timestamp


def _offset(offset: str | None) -> str:
    if offset is None or offset in "Zz":
        return "Z"
    return offset if ":" in offset else f"{offset[:3]}:{offset[3:]}"


def _require_valid(parse: Callable[[str], object], text: str, kind: str) -> None:
    """Raise UnmappableValue for a value that does not exist or is out of range."""
    try:
        parsed = parse(text)
    except ValueError:
        raise UnmappableValue(f"is {describe_value(text)}: a {kind} that does not exist") from None
    if not _FIRST_YEAR <= getattr(parsed, "year", _FIRST_YEAR) <= _LAST_YEAR:
        raise UnmappableValue(f"is {describe_value(text)}: outside the years {_FIRST_YEAR} to {_LAST_YEAR}")


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
