"""From a declaration to compiled record types that check and complete source records at C speed.

Decoding into a type refuses unknown members and wrong types with the path of the fault; encoding gives every member
in the contract's order, absent ones as null.

There are two types per resource. The one says what a source may send. The other is narrower: it takes only records of
which the indexer has next to nothing to mend, and exists because refusing in C is cheaper than looking in Python.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from mappings.fields import Field, Kind
from mappings.naming import underscore

if TYPE_CHECKING:
    from mappings.resource import Resource

# A space, a slash or a control character would not survive in a path or a log line.
IDENTIFIER_PATTERN = r"^[^\x00-\x20/\x7f]{1,128}\Z"
Identifier = Annotated[str, msgspec.Meta(pattern=IDENTIFIER_PATTERN)]
# The largest integer that every JSON reader keeps exactly.
LARGEST = 2**53
_Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
_DateTime = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([0-9]{2}:){2}[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})\Z"
    ),
]
# Moments that the calendar has for certain: February 29 and the years before 1000 are left to a closer look.
_CERTAIN_DAY = r"(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31"
_MINUTE = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_CertainDateTime = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[1-9][0-9]{3}-(?:" + _CERTAIN_DAY + ")T" + _MINUTE + r":[0-5][0-9](?:\.[0-9]{1,9})?"
        r"(?:Z|[+-]" + _MINUTE + r")\Z"
    ),
]


@dataclass(frozen=True)
class _Level:
    """What the members of an object may be, and those of the objects in it."""

    types: dict[Kind, Any]
    inner: _Level | None = None  # None: as in this object
    has_null_lists: bool = True


_SOURCE = _Level(
    {
        Kind.STRING: str,
        Kind.DATE: dt.date,
        Kind.DATE_TIME: _DateTime,
        # A fraction is let in: the indexer rounds it and counts it in its report (decisions, Integers).
        Kind.INTEGER: int | float,
        Kind.UNIX: int,
        Kind.NUMBER: int | float,
        Kind.BOOLEAN: bool,
        Kind.UNTYPED: Any,
        Kind.STRINGS: list[str],
        Kind.UNTYPED_LIST: list[Any],
    }
)
_CERTAIN = _SOURCE.types | {Kind.DATE_TIME: _CertainDateTime}
_SETTLED = _Level(
    _CERTAIN | {Kind.INTEGER: _Whole | float},
    inner=_Level(_CERTAIN | {Kind.INTEGER: _Whole}, has_null_lists=False),
)


@cache
def record_type(resource: Resource) -> type[msgspec.Struct]:
    """Return the type of the resource's stored record; only its identifier is required."""
    return _struct(resource.name, resource.stored, _SOURCE, resource.identifier)


@cache
def settled_type(resource: Resource) -> type[msgspec.Struct]:
    """Return the type of a record whose objects need no mending, and that needs none itself but for what is common.

    Common are a fraction where a whole number belongs and null for a list; they are let in at the top. The type takes
    nothing that `record_type` refuses, and what both take, both read alike, but for null lists further down: those are
    refused, and absent ones are empty.
    """
    return _struct(resource.name, resource.stored, _SETTLED, resource.identifier)


def _struct(name: str, fields: tuple[Field, ...], level: _Level, identifier: str | None = None) -> type[msgspec.Struct]:
    members = [(field.name, Identifier) if field.name == identifier else _member(field, level) for field in fields]
    return msgspec.defstruct(name, members, kw_only=True, forbid_unknown_fields=True, gc=False)


def _member(field: Field, level: _Level) -> tuple[str, Any, Any]:
    if field.kind.is_list and not level.has_null_lists:
        return (field.name, _type(field, level), [])
    return (field.name, _type(field, level) | None, None)


def _type(field: Field, level: _Level) -> Any:
    if not field.members:
        return level.types[field.kind]
    struct = _struct(f"{underscore(field.name)}_member", field.members, level.inner or level)
    return list[struct] if field.kind is Kind.OBJECTS else struct  # type: ignore[valid-type]
