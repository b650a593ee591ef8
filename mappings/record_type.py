"""From a declaration to a compiled record type that checks and completes source records at C speed.

Decoding into the type refuses unknown members and wrong types with the path of the fault; encoding gives every member
in the contract's order, absent ones as null.
"""

from __future__ import annotations

import datetime as dt
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
_DateTime = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([0-9]{2}:){2}[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})\Z"
    ),
]

_TYPES: dict[Kind, Any] = {
    Kind.STRING: str | None,
    Kind.DATE: dt.date | None,
    Kind.DATE_TIME: _DateTime | None,
    # A fraction is let in: the indexer rounds it and counts it in its report (decisions, Integers).
    Kind.INTEGER: int | float | None,
    Kind.UNIX: int | None,
    Kind.NUMBER: int | float | None,
    Kind.BOOLEAN: bool | None,
    Kind.UNTYPED: Any,
    Kind.STRINGS: list[str] | None,
    Kind.UNTYPED_LIST: list[Any] | None,
}


@cache
def record_type(resource: Resource) -> type[msgspec.Struct]:
    """Return the type of the resource's stored record; only its identifier is required."""
    return _struct(resource.name, resource.stored, resource.identifier)


def _struct(name: str, fields: tuple[Field, ...], identifier: str | None = None) -> type[msgspec.Struct]:
    members = [(field.name, Identifier) if field.name == identifier else _member(field) for field in fields]
    return msgspec.defstruct(name, members, kw_only=True, forbid_unknown_fields=True, gc=False)


def _member(field: Field) -> tuple[str, Any, Any]:
    return (field.name, _type(field), None)


def _type(field: Field) -> Any:
    if not field.members:
        return _TYPES[field.kind]
    struct = _struct(f"{underscore(field.name)}_member", field.members)
    return list[struct] | None if field.kind is Kind.OBJECTS else struct | None  # type: ignore[valid-type]
