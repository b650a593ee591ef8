"""The vocabulary of public fields: their names, JSON types and forms, and the views they appear in.

The contract types many members as strings. The form of those that requests ask by follows from the parameter that
selects by them, or from what the contract says of them: the indexer stores them so, and
the service reads parameters so.

The alphabet of identifiers is what the indexer accepts, and what the service finds in paths, cursors and filters.
Control characters and surrogates are not text. A space, a slash, `.` and `..` do not survive in a path. The document of
a move is named `<company>/<identifier>`, which must fit into an `_id` of Elasticsearch.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from functools import cache, partial
from math import isfinite
from typing import NamedTuple

import msgspec

# Before a capital that follows a small letter or digit, and before the last capital of a run before a small letter.
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@cache
def underscore(name: str) -> str:
    """Return a field name in underscored form, for example `ListOfficeAORArea` as `list_office_aor_area`.

    Underscored names are returned unchanged.
    """
    return _BOUNDARY.sub("_", name).lower()


MAX_CHARACTERS = 128
# An `_id` has at most 512 bytes; a company key has at most 64, a slash separates them.
MAX_BYTES = 512 - 64 - 1
# The inside of a character class: the control characters of ASCII and Unicode, and surrogates.
CONTROL_CHARACTERS = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
# Earlier versions accepted these identifiers. Records that have one can still be read as cursors, and deleted.
STORED_PATTERN = rf"^[^\x00-\x20/\x7f]{{1,{MAX_CHARACTERS}}}\Z"
RULE = (
    f"must be 1 to {MAX_CHARACTERS} characters and at most {MAX_BYTES} bytes, without spaces, slashes or control "
    "characters, and not . or .."
)

_IDENTIFIER = re.compile(rf"[^{CONTROL_CHARACTERS} /]{{1,{MAX_CHARACTERS}}}")
_DOT_SEGMENTS = frozenset({".", ".."})


def is_identifier(text: str) -> bool:
    if _IDENTIFIER.fullmatch(text) is None or text in _DOT_SEGMENTS:
        return False
    return text.isascii() or len(text.encode()) <= MAX_BYTES


TEXT_PATTERN = re.compile(f"[^{CONTROL_CHARACTERS}]{{1,{MAX_CHARACTERS}}}")
TEXT_RULE = f"must be 1 to {MAX_CHARACTERS} characters without control characters"
UUID_RULE = "must be a UUID, for example 3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a"

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
MINUTE_PATTERN = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_ANY_UUID = re.compile(_UUID, re.ASCII | re.IGNORECASE)
_ANY_TIME = re.compile(rf"{MINUTE_PATTERN}(?::[0-5][0-9])?", re.ASCII)


class _Form(NamedTuple):
    rule: str  # completes "is '...': "
    pattern: str  # of the texts that are stored


class TextForm(Enum):
    UUID = _Form(UUID_RULE, rf"^{_UUID}\Z")
    REFERENCE = _Form(TEXT_RULE, rf"^{TEXT_PATTERN.pattern}\Z")
    LOCAL_TIME = _Form("must be a local time HH:MM:SS, for example 13:30:00", rf"^{MINUTE_PATTERN}:[0-5][0-9]\Z")

    @property
    def rule(self) -> str:
        """What a text must be, without a full stop."""
        return self.value.rule

    @property
    def stored_pattern(self) -> str:
        return self.value.pattern

    def canonical(self, text: str) -> str | None:
        """Return the text as it is stored, None if it does not have the form."""
        if self is TextForm.UUID:
            return text.lower() if _ANY_UUID.fullmatch(text) else None
        if self is TextForm.LOCAL_TIME:
            return (text + ":00")[: len("HH:MM:SS")] if _ANY_TIME.fullmatch(text) else None
        return text if TEXT_PATTERN.fullmatch(text) else None


# A number may be given as a text, and a text as a value of any type: a property shows what its search field has.
_EMPTY_VALUES: tuple[object, ...] = (None, {}, [])


def text_in(value: object) -> str | None:
    """Return a value of any type as a string: None for null and for an empty object or list, else as JSON."""
    if isinstance(value, str):
        return value
    return None if value in _EMPTY_VALUES else msgspec.json.encode(value).decode()


_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?)\s*", re.ASCII)


def number_in(value: object) -> float | None:
    """Return a number, also one given as text such as `47.61`; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value)):
        value = float(match[1])
    if not isinstance(value, float) or not isfinite(value):
        return None
    return int(value) if value.is_integer() else value


class View(StrEnum):
    """The two forms of a record: in a collection, or alone."""

    INDEX = "index"
    SHOW = "show"


ALL_VIEWS = frozenset(View)
INDEX_ONLY = frozenset({View.INDEX})
SHOW_ONLY = frozenset({View.SHOW})


class FieldKind(Enum):
    """The JSON type of a field's value. Every kind but the lists may be null."""

    STRING = "string"
    DATE = "date"  # YYYY-MM-DD
    DATE_TIME = "date-time"  # ISO 8601 with offset
    INTEGER = "integer"
    UNIX = "unix"  # whole seconds since 1970
    NUMBER = "number"
    BOOLEAN = "boolean"
    UNTYPED = "untyped"  # the contract shows null or an empty object, without a type
    OBJECT = "object"
    STRINGS = "strings"
    OBJECTS = "objects"
    UNTYPED_LIST = "untyped list"  # the contract states no element shape

    def __init__(self, name: str) -> None:
        """Note whether an absent value is `[]` rather than `null`."""
        self.is_list = name in {"strings", "objects", "untyped list"}


@dataclass(frozen=True, kw_only=True)
class IncludeFlag:
    """The query parameter that includes an optional field, and the views in which the field is absent without it."""

    parameter: str
    views: frozenset[View] = ALL_VIEWS


@dataclass(frozen=True, kw_only=True)
class Field:
    name: str
    kind: FieldKind
    members: tuple[Field, ...] = ()
    object_name: str = ""  # the name of an object with these members in JSON Schema
    views: frozenset[View] = ALL_VIEWS
    flag: IncludeFlag | None = None
    note: str = ""  # what the value is, in a sentence
    values: tuple[str, ...] = ()  # those that the service knows; others may be added
    example: object = field(default=None, compare=False)  # where the example record has no value
    form: TextForm | None = None  # of a string, which is refused or converted otherwise
    is_update_time: bool = False  # the envelope's `updated_at` if the source has none
    group: str = ""  # the field group that a key needs to see the value; empty: none
    is_shown_exact: bool = False  # an integer: requests with the compatible profile get it with the source's fraction

    @property
    def underscored(self) -> str:
        return underscore(self.name)

    def is_absent(self, view: View, sent: Collection[str] = ()) -> bool:
        """Whether the field is absent from a view with the flags `sent`."""
        return self.flag is not None and view in self.flag.views and self.flag.parameter not in sent

    @property
    def empty_value(self) -> list[object] | None:
        return [] if self.kind.is_list else None

    def only(self, views: frozenset[View]) -> Field:
        return replace(self, views=views)

    def on_request(self, parameter: str, views: frozenset[View] = ALL_VIEWS) -> Field:
        """Return the field, absent from `views` unless `parameter` is sent."""
        return replace(self, flag=IncludeFlag(parameter=parameter, views=views))

    def only_on_request(self, parameter: str, views: frozenset[View]) -> Field:
        """Return the field, present in `views` alone and only if `parameter` is sent."""
        return replace(self, views=views, flag=IncludeFlag(parameter=parameter, views=views))

    def update_time(self) -> Field:
        """Return the field, which is the envelope's `updated_at` if the source gives no value."""
        return replace(self, is_update_time=True)

    def guarded(self, group: str) -> Field:
        """Return the field, empty for keys that may not see `group`, whatever flags are sent."""
        return replace(self, group=group)

    def shown_exact(self) -> Field:
        """Return the field, an integer that requests with the compatible profile get with the source's fraction."""
        return replace(self, is_shown_exact=True)


def _field(
    kind: FieldKind, name: str, note: str = "", *, values: tuple[str, ...] = (), example: object = None
) -> Field:
    return Field(name=name, kind=kind, note=note, values=values, example=example)


def _formed(form: TextForm, name: str, note: str = "", *, example: object = None) -> Field:
    return Field(name=name, kind=FieldKind.STRING, note=note, example=example, form=form)


def _nested(kind: FieldKind, name: str, note: str, *members: Field, object_name: str) -> Field:
    return Field(name=name, kind=kind, note=note, members=members, object_name=object_name)


# What declares a field of each kind, by its name and what it is.
string = partial(_field, FieldKind.STRING)
uuid = partial(_formed, TextForm.UUID)  # stored in lower case
reference = partial(_formed, TextForm.REFERENCE)  # an identifier that requests select by
local_time = partial(_formed, TextForm.LOCAL_TIME)  # HH:MM:SS
date = partial(_field, FieldKind.DATE)  # YYYY-MM-DD
date_time = partial(_field, FieldKind.DATE_TIME)  # ISO 8601 with offset
integer = partial(_field, FieldKind.INTEGER)
unix = partial(_field, FieldKind.UNIX)  # whole seconds since 1970
number = partial(_field, FieldKind.NUMBER)  # may have a fraction
boolean = partial(_field, FieldKind.BOOLEAN)
untyped = partial(_field, FieldKind.UNTYPED)
strings = partial(_field, FieldKind.STRINGS)
untyped_list = partial(_field, FieldKind.UNTYPED_LIST)
# By its name, what it is and its members; `object_name` names one object in JSON Schema.
nested = partial(_nested, FieldKind.OBJECT)
objects = partial(_nested, FieldKind.OBJECTS)
