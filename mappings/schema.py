"""From a declaration to JSON Schema (2020-12, the dialect of OpenAPI 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings.fields import Field, Kind, View
from mappings.naming import underscore

if TYPE_CHECKING:
    from mappings.resource import Resource

# Behind the names of schemas whose keys are underscored.
UNDERSCORED = "Underscored"

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
    """Return the schema of one answered record; open to fields that are added later. Objects in it have titles."""
    fields = resource.view(view)
    required = [_key(field, underscored) for field in fields if not (field.flag and field.flag.vanishes)]
    properties = {_key(field, underscored): _value(field, underscored) | _told(field, view) for field in fields}
    properties[_identifier(resource, underscored)]["type"] = "string"
    return {"type": "object", "properties": properties, "required": required}


def brief_schema(resource: Resource, *, underscored: bool = False) -> dict[str, object]:
    """Return the schema of one record under `timestamps_only`."""
    properties: dict[str, object] = {
        underscore(name) if underscored else name: _SCALARS[Kind.STRING] for name in resource.timestamps
    }
    clock = {"type": "integer", "description": "Seconds since 1970; the clock that updated_since compares."}
    moment = _SCALARS[Kind.DATE_TIME] | {"description": "The source's time of the last change."}
    properties[_identifier(resource, underscored)] = {"type": "string"}
    properties |= {"last_updated": clock, "modification_timestamp": moment}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _identifier(resource: Resource, underscored: bool) -> str:  # noqa: FBT001 - passed on as is
    """Return the key of the one member that every record has a value of."""
    return underscore(resource.identifier) if underscored else resource.identifier


def _told(field: Field, view: View) -> dict[str, object]:
    """Return the description of a field: its note, its unit, and by which flag it comes."""
    told = [str(_SCALARS.get(field.kind, {}).get("description", "")), _note(field)]
    if field.flag is not None and view in field.flag.views:
        told.append(f"{'Only there if' if field.flag.vanishes else 'Empty unless'} {field.flag.parameter} is sent.")
    description = " ".join(filter(None, told))
    return {"description": description} if description else {}


def _key(field: Field, underscored: bool) -> str:  # noqa: FBT001 - passed on as is
    return field.underscored if underscored else field.name


def _value(field: Field, underscored: bool) -> dict[str, object]:  # noqa: FBT001 - passed on as is
    if not field.members:
        return _SCALARS[field.kind] | ({"description": text} if (text := _note(field)) else {})
    members: dict[str, object] = {
        "title": field.one + UNDERSCORED * underscored,
        "properties": {_key(member, underscored): _value(member, underscored) for member in field.members},
        "required": [_key(member, underscored) for member in field.members],
    }
    if field.kind is Kind.OBJECTS:
        return {"type": "array", "items": {"type": "object", **members}}
    return {"type": ["object", "null"], **members}


def _note(field: Field) -> str:
    guarded = f"Empty for keys that may not see {field.group}." if field.group else ""
    return " ".join(filter(None, (field.note, guarded)))
