"""From a declaration to JSON Schema (2020-12, the dialect of OpenAPI 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings.fields import Field, Kind, View

if TYPE_CHECKING:
    from mappings.resource import Resource

_SCALARS: dict[Kind, dict[str, object]] = {
    Kind.STRING: {"type": ["string", "null"]},
    Kind.DATE: {"type": ["string", "null"], "format": "date"},
    Kind.DATE_TIME: {"type": ["string", "null"], "format": "date-time"},
    Kind.INTEGER: {"type": ["integer", "null"]},
    Kind.UNIX: {"type": ["integer", "null"], "description": "Seconds since 1970."},
    Kind.NUMBER: {"type": ["number", "null"]},
    Kind.BOOLEAN: {"type": ["boolean", "null"]},
    Kind.UNTYPED: {},
    Kind.STRINGS: {"type": "array", "items": {"type": "string"}},
    Kind.UNTYPED_LIST: {"type": "array", "items": {}},
}


def record_schema(resource: Resource, view: View, *, underscored: bool = False) -> dict[str, object]:
    """Return the schema of one answered record; open to fields that are added later."""
    fields = resource.view(view)
    required = [_key(field, underscored) for field in fields if not (field.flag and field.flag.vanishes)]
    return {"type": "object", "properties": _properties(fields, underscored), "required": required}


def _properties(fields: tuple[Field, ...], underscored: bool) -> dict[str, object]:  # noqa: FBT001 - passed on as is
    return {_key(field, underscored): _value(field, underscored) for field in fields}


def _key(field: Field, underscored: bool) -> str:  # noqa: FBT001 - passed on as is
    return field.underscored if underscored else field.name


def _value(field: Field, underscored: bool) -> dict[str, object]:  # noqa: FBT001 - passed on as is
    note: dict[str, object] = {"description": text} if (text := _note(field)) else {}
    if not field.members:
        return _SCALARS[field.kind] | note
    members: dict[str, object] = {
        "properties": _properties(field.members, underscored),
        "required": [_key(member, underscored) for member in field.members],
    }
    if field.kind is Kind.OBJECTS:
        return {"type": "array", "items": {"type": "object", **members}} | note
    return {"type": ["object", "null"], **members} | note


def _note(field: Field) -> str:
    guarded = f"Empty for keys that may not see {field.group}." if field.group else ""
    return " ".join(filter(None, (field.note, guarded)))
