"""Record types and schemas, derived from the declaration of a resource: compiled (msgspec), and in JSON Schema.

The compiled types validate and complete source records at C speed. Decoding rejects unknown members and wrong types
with the path of the error; encoding writes every member in the contract's order, absent ones as null. Each resource has
two of them. One accepts all that a source may send. The strict one accepts only records that need hardly any repair by
the indexer, because validating in C is cheaper than inspecting in Python.

JSON Schema is 2020-12, the dialect of OpenAPI 3.1.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import msgspec

from mappings.fields import MINUTE_PATTERN, STORED_PATTERN, Field, FieldKind, TextForm, View, underscore
from mappings.resource import Resource

# A deletion may name a record of an earlier version; `indexer.documents` checks the identifiers of others.
_Identifier = Annotated[str, msgspec.Meta(pattern=STORED_PATTERN)]
# The largest integer that every JSON reader represents exactly.
MAX_SAFE_INTEGER = 2**53
_SafeInteger = Annotated[int, msgspec.Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
_DateTime = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([0-9]{2}:){2}[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})\Z"
    ),
]
# Certainly valid dates: February 29 and years before 1000 are left to the full check.
_STRICT_DAY = r"(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31"
_StrictDateTime = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[1-9][0-9]{3}-(?:" + _STRICT_DAY + ")T" + MINUTE_PATTERN + r":[0-5][0-9](?:\.[0-9]{1,9})?"
        r"(?:Z|[+-]" + MINUTE_PATTERN + r")\Z"
    ),
]


@dataclass(frozen=True)
class _MemberTypes:
    """The accepted types of an object's members, and of the objects nested in it."""

    types: dict[FieldKind, Any]
    inner: _MemberTypes | None = None  # None: the same
    forms: dict[TextForm, Any] = dataclasses.field(default_factory=dict)
    has_null_lists: bool = True


_SOURCE_TYPES = _MemberTypes(
    {
        FieldKind.STRING: str,
        FieldKind.DATE: dt.date,
        FieldKind.DATE_TIME: _DateTime,
        # Fractions are accepted: the indexer rounds them and reports their number (decisions, Integers).
        FieldKind.INTEGER: int | float,
        FieldKind.UNIX: int,
        FieldKind.NUMBER: int | float,
        FieldKind.BOOLEAN: bool,
        FieldKind.UNTYPED: Any,
        FieldKind.STRINGS: list[str],
        FieldKind.UNTYPED_LIST: list[Any],
    }
)
_STRICT_SCALARS = _SOURCE_TYPES.types | {FieldKind.DATE_TIME: _StrictDateTime}
_STRICT_FORMS = {form: Annotated[str, msgspec.Meta(pattern=form.stored_pattern)] for form in TextForm}
_STRICT_TYPES = _MemberTypes(
    _STRICT_SCALARS | {FieldKind.INTEGER: _SafeInteger | float},
    inner=_MemberTypes(_STRICT_SCALARS | {FieldKind.INTEGER: _SafeInteger}, has_null_lists=False, forms=_STRICT_FORMS),
    forms=_STRICT_FORMS,
)


@cache
def record_type(resource: Resource) -> type[msgspec.Struct]:
    """Return the type of the resource's stored record; only its identifier is required."""
    return _struct(resource.name, resource.stored, _SOURCE_TYPES, resource.identifier)


@cache
def strict_record_type(resource: Resource) -> type[msgspec.Struct]:
    """Return the type of a record that needs no repair except for the two common defects at the top level.

    These are a fraction for a whole number and null for a list. The type accepts a subset of `record_type` and decodes
    it alike, except for nested lists: null is rejected, and an absent list is empty.
    """
    return _struct(resource.name, resource.stored, _STRICT_TYPES, resource.identifier)


def object_type(name: str, fields: tuple[Field, ...]) -> type[msgspec.Struct]:
    """Return the type of an object that a source sends beside the record."""
    return _struct(name, fields, _SOURCE_TYPES)


def _struct(
    name: str, fields: tuple[Field, ...], level: _MemberTypes, identifier: str | None = None
) -> type[msgspec.Struct]:
    members = [(field.name, _Identifier) if field.name == identifier else _member(field, level) for field in fields]
    return msgspec.defstruct(name, members, kw_only=True, forbid_unknown_fields=True, gc=False)


def _member(field: Field, level: _MemberTypes) -> tuple[str, Any, Any]:
    if field.kind.is_list and not level.has_null_lists:
        return (field.name, _type(field, level), [])
    return (field.name, _type(field, level) | None, None)


def _type(field: Field, level: _MemberTypes) -> Any:
    if not field.members:
        return level.forms[field.form] if field.form in level.forms else level.types[field.kind]
    struct = _struct(f"{field.name}_member", field.members, level.inner or level)
    return list[struct] if field.kind is FieldKind.OBJECTS else struct  # type: ignore[valid-type]


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
        _property_name(field, underscored): value_schema(field, underscored=underscored) | _description(field, view)
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
    return underscore(resource.identifier) if underscored else resource.identifier


def _description(field: Field, view: View) -> dict[str, object]:
    """Return the description of a field: its unit, its note, and the flag that includes it."""
    notes = [_field_note(field), str(_SCALAR_SCHEMAS.get(field.kind, {}).get("description", ""))]
    if field.flag is not None and view in field.flag.views:
        notes.append(f"Present only if {field.flag.parameter} is sent.")
    description = " ".join(filter(None, notes))
    return {"description": description} if description else {}


def _property_name(field: Field, underscored: bool) -> str:  # noqa: FBT001 - passed on as is
    return field.underscored if underscored else field.name


def value_schema(field: Field, *, underscored: bool) -> dict[str, object]:
    """Return the schema of the value of a field."""
    if not field.members:
        described = {"description": text} if (text := _field_note(field)) else {}
        return (
            _SCALAR_SCHEMAS[field.kind] | described | ({} if field.example is None else {"examples": [field.example]})
        )
    members: dict[str, object] = {
        "title": field.object_name + UNDERSCORED_SUFFIX * underscored,
        "properties": {
            _property_name(member, underscored): value_schema(member, underscored=underscored)
            for member in field.members
        },
        "required": [_property_name(member, underscored) for member in field.members],
    }
    if field.kind is FieldKind.OBJECTS:
        return {"type": "array", "items": {"type": "object", **members}}
    return {"type": ["object", "null"], **members}


def _field_note(field: Field) -> str:
    values = f"One of: {', '.join(field.values)}." if field.values else ""
    guarded = f"Empty for keys that may not see {field.group}." if field.group else ""
    return " ".join(filter(None, (field.note, values, guarded)))
