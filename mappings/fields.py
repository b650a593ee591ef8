"""The vocabulary of public fields: a record's members, the JSON types they carry and where they appear."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from mappings.naming import underscore


class View(StrEnum):
    """The two shapes a resource is answered in: one of a collection, or alone."""

    INDEX = "index"
    SHOW = "show"


EVERYWHERE = frozenset(View)
INDEX_ONLY = frozenset({View.INDEX})
SHOW_ONLY = frozenset({View.SHOW})


class Kind(Enum):
    """The JSON type of a field's value. Every kind but the lists may be null."""

    STRING = "string"
    DATE = "date"  # YYYY-MM-DD
    DATE_TIME = "date-time"  # ISO 8601 with offset
    INTEGER = "integer"
    UNIX = "unix"  # whole seconds since 1970
    NUMBER = "number"
    BOOLEAN = "boolean"
    UNTYPED = "untyped"  # the contract shows null or an empty object and states no type
    OBJECT = "object"
    STRINGS = "strings"
    OBJECTS = "objects"
    UNTYPED_LIST = "untyped list"  # the contract states no element shape

    @property
    def is_list(self) -> bool:
        """Whether an absent value is `[]` rather than `null`."""
        return self in {Kind.STRINGS, Kind.OBJECTS, Kind.UNTYPED_LIST}


@dataclass(frozen=True, kw_only=True)
class Flag:
    """The query parameter that asks for an optional field, and the views in which it is needed.

    Without it the field is empty, or is not there at all where `vanishes` is set.
    """

    parameter: str
    views: frozenset[View] = EVERYWHERE
    vanishes: bool = False


@dataclass(frozen=True, kw_only=True)
class Field:
    """One member of a public record."""

    name: str
    kind: Kind
    members: tuple[Field, ...] = ()
    one: str = ""  # what one object with these members is called, in the schema of the record
    views: frozenset[View] = EVERYWHERE
    flag: Flag | None = None
    note: str = ""
    group: str = ""  # what a key must be granted to see the value; empty: every key sees it

    @property
    def underscored(self) -> str:
        """The key under `underscore_response`."""
        return underscore(self.name)

    @property
    def empty(self) -> list[object] | None:
        """What stands where there is no value."""
        return [] if self.kind.is_list else None

    def only(self, views: frozenset[View]) -> Field:
        """Return the same field, shown in `views` alone."""
        return replace(self, views=views)

    def on_request(self, parameter: str, views: frozenset[View] = EVERYWHERE) -> Field:
        """Return the same field, empty in `views` unless `parameter` asks for it."""
        return replace(self, flag=Flag(parameter=parameter, views=views))

    def only_on_request(self, parameter: str, views: frozenset[View]) -> Field:
        """Return the same field, which exists in `views` only and only where `parameter` asks for it."""
        return replace(self, views=views, flag=Flag(parameter=parameter, views=views, vanishes=True))

    def guarded(self, group: str) -> Field:
        """Return the same member of a record, empty for keys that may not see `group`, whatever flags are sent."""
        return replace(self, group=group)


def string(name: str, note: str = "") -> Field:
    """Declare a text."""
    return Field(name=name, kind=Kind.STRING, note=note)


def strings_named(*names: str) -> tuple[Field, ...]:
    """Declare several texts in a row."""
    return tuple(string(name) for name in names)


def date(name: str, note: str = "") -> Field:
    """Declare a day, `YYYY-MM-DD`."""
    return Field(name=name, kind=Kind.DATE, note=note)


def date_time(name: str, note: str = "") -> Field:
    """Declare an ISO 8601 moment with offset."""
    return Field(name=name, kind=Kind.DATE_TIME, note=note)


def integer(name: str, note: str = "") -> Field:
    """Declare a whole number."""
    return Field(name=name, kind=Kind.INTEGER, note=note)


def unix(name: str, note: str = "") -> Field:
    """Declare a moment in whole seconds since 1970."""
    return Field(name=name, kind=Kind.UNIX, note=note)


def number(name: str, note: str = "") -> Field:
    """Declare a number that may have a fraction."""
    return Field(name=name, kind=Kind.NUMBER, note=note)


def boolean(name: str, note: str = "") -> Field:
    """Declare a truth value."""
    return Field(name=name, kind=Kind.BOOLEAN, note=note)


def untyped(name: str) -> Field:
    """Declare a field that the contract shows as null or an empty object."""
    return Field(name=name, kind=Kind.UNTYPED)


def untyped_named(*names: str) -> tuple[Field, ...]:
    """Declare several untyped fields in a row."""
    return tuple(untyped(name) for name in names)


def nested(name: str, *members: Field, one: str) -> Field:
    """Declare an object with the given members, called `one`."""
    return Field(name=name, kind=Kind.OBJECT, members=members, one=one)


def strings(name: str, note: str = "") -> Field:
    """Declare a list of texts."""
    return Field(name=name, kind=Kind.STRINGS, note=note)


def objects(name: str, *members: Field, one: str) -> Field:
    """Declare a list of objects with the given members, each called `one`."""
    return Field(name=name, kind=Kind.OBJECTS, members=members, one=one)


def untyped_list(name: str) -> Field:
    """Declare a list whose elements the contract leaves open."""
    return Field(name=name, kind=Kind.UNTYPED_LIST)
