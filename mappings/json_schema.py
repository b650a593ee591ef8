"""The JSON Schema of records (2020-12, the dialect of OpenAPI 3.1)."""

from mappings.casing import underscore
from mappings.fields import Field, FieldKind, View
from mappings.resource import Resource

# The suffix of the names of schemas with underscored keys.
UNDERSCORED_SUFFIX = "Underscored"

_SCALAR_SCHEMAS: dict[FieldKind, dict[str, object]] = {
    FieldKind.STRING: {"type": ["string", "null"]},
    FieldKind.DATE: {"type": ["string", "null"], "format": "date"},
    FieldKind.DATE_TIME: {"type": ["string", "null"], "format": "date-time"},
    FieldKind.INTEGER: {"type": ["integer", "null"]},
    FieldKind.UNIX: {"type": ["integer", "null"], "description": "Seconds since 1970."},
    FieldKind.NUMBER: {"type": ["number", "null"]},
    FieldKind.BOOLEAN: {"type": ["boolean", "null"]},
    FieldKind.UNTYPED: {},
    FieldKind.STRINGS: {"type": "array", "items": {"type": "string"}},
    FieldKind.UNTYPED_LIST: {"type": "array", "items": {}},
}


def record_schema(resource: Resource, view: View, *, underscored: bool = False) -> dict[str, object]:
    """Return the schema of one record, open to fields added later. Objects in it have titles."""
    fields = resource.view(view)
    required = [_property_name(field, underscored) for field in fields if not field.is_absent(view)]
    properties = {
        _property_name(field, underscored): _value_schema(field, underscored) | _description(field, view)
        for field in fields
    }
    properties[_identifier_name(resource, underscored)]["type"] = "string"
    return {"type": "object", "properties": properties, "required": required}


def timestamps_schema(resource: Resource, *, underscored: bool = False) -> dict[str, object]:
    """Return the schema of one record under `timestamps_only`."""
    properties: dict[str, object] = {
        underscore(name) if underscored else name: _SCALAR_SCHEMAS[FieldKind.STRING] for name in resource.timestamps
    }
    clock = {"type": "integer", "description": "Seconds since 1970; the clock that updated_since compares."}
    modified = _SCALAR_SCHEMAS[FieldKind.DATE_TIME] | {"description": "The source's time of the last change."}
    properties[_identifier_name(resource, underscored)] = {"type": "string"}
    properties |= {"last_updated": clock, "modification_timestamp": modified}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _identifier_name(resource: Resource, underscored: bool) -> str:  # noqa: FBT001 - passed on as is
    """Return the key of the identifier."""
    return underscore(resource.identifier) if underscored else resource.identifier


def _description(field: Field, view: View) -> dict[str, object]:
    """Return the description of a field: its unit, its note, and the flag that includes it."""
    notes = [str(_SCALAR_SCHEMAS.get(field.kind, {}).get("description", "")), _field_note(field)]
    if field.flag is not None and view in field.flag.views:
        notes.append(f"Present only if {field.flag.parameter} is sent.")
    description = " ".join(filter(None, notes))
    return {"description": description} if description else {}


def _property_name(field: Field, underscored: bool) -> str:  # noqa: FBT001 - passed on as is
    return field.underscored if underscored else field.name


def _value_schema(field: Field, underscored: bool) -> dict[str, object]:  # noqa: FBT001 - passed on as is
    if not field.members:
        return _SCALAR_SCHEMAS[field.kind] | ({"description": text} if (text := _field_note(field)) else {})
    members: dict[str, object] = {
        "title": field.object_name + UNDERSCORED_SUFFIX * underscored,
        "properties": {
            _property_name(member, underscored): _value_schema(member, underscored) for member in field.members
        },
        "required": [_property_name(member, underscored) for member in field.members],
    }
    if field.kind is FieldKind.OBJECTS:
        return {"type": "array", "items": {"type": "object", **members}}
    return {"type": ["object", "null"], **members}


def _field_note(field: Field) -> str:
    guarded = f"Empty for keys that may not see {field.group}." if field.group else ""
    return " ".join(filter(None, (field.note, guarded)))
