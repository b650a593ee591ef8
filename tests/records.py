"""One valid source record per resource, made from the declarations, and source folders of such records."""

import copy
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING, Resource
from mappings.fields import Field, FieldKind, TextForm
from mappings.listing import TIME_ZONE

COMPANY_KEY = "acme"
UUID_OF_A_TEST = "0b0e6d3c-5f0d-4f35-9d3c-111111111111"
UPDATED_AT = "2026-01-02T03:04:05.678Z"

_VALUES: dict[FieldKind, Any] = {
    FieldKind.DATE: "2026-01-02",
    FieldKind.DATE_TIME: UPDATED_AT,
    FieldKind.INTEGER: 3,
    FieldKind.UNIX: 1_767_323_045,
    FieldKind.NUMBER: 2.5,
    FieldKind.BOOLEAN: True,
    FieldKind.UNTYPED: None,
    FieldKind.STRINGS: ["first", "second"],
    FieldKind.UNTYPED_LIST: [],
}
_FORMED: dict[TextForm | None, Any] = {
    TextForm.UUID: UUID_OF_A_TEST,
    TextForm.LOCAL_TIME: "13:30:00",
}
# Where a rule asks for more than the type.
_RULED: dict[Resource, dict[str, Any]] = {
    COMPANY: {"platform_company_id": COMPANY_KEY, "numeric_id": "4100"},
    AGENT: {"agent_uuid": UUID_OF_A_TEST},
    LISTING: {"PlatformListingId": "listing-1", "Status": "Active", "PropertyType": "Condo"},
    SOLD_LISTING: {"PlatformListingId": "sold-1", "Status": "Sold", "PropertyType": "Condo", "OnMarket": False},
}


def identifier_of(resource: Resource, name: str) -> str:
    """Return a valid identifier for a name: agents have UUIDs."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name)) if resource is AGENT else name


def record(resource: Resource, **changes: Any) -> dict[str, Any]:
    """Return a valid record with every field given, and with `changes` made to it."""
    identifier = {resource.identifier: f"{resource.name.lower()}-1"}
    return {field.name: _value(field) for field in resource.stored} | identifier | _RULED.get(resource, {}) | changes


def _value(field: Field) -> Any:
    if field.members:
        members = {member.name: _value(member) for member in field.members}
        return [members, copy.deepcopy(members)] if field.kind is FieldKind.OBJECTS else members
    return copy.copy(_FORMED.get(field.form) or _VALUES.get(field.kind, f"{field.name} of a test"))


def envelope(resource: Resource, record_changes: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a valid envelope; `changes` are its own members, a change to None leaves the member out."""
    own: dict[str, Any] = {} if resource is COMPANY else {"platform_company_id": COMPANY_KEY}
    own |= {TIME_ZONE: "America/Los_Angeles"} if TIME_ZONE in resource.envelope_members else {}
    made = {**own, "updated_at": UPDATED_AT, "record": record(resource, **(record_changes or {})), **changes}
    return {name: value for name, value in made.items() if value is not None}


def deletion(resource: Resource, identifier: str, updated_at: str = UPDATED_AT) -> dict[str, Any]:
    """Return the envelope that deletes a record."""
    return envelope(resource, deleted=True, updated_at=updated_at) | {"record": {resource.identifier: identifier}}


def write(folder: Path, lines: Mapping[Resource, Iterable[dict[str, Any] | bytes]]) -> Path:
    """Write a source folder; bytes are lines as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for resource, given in lines.items():
        encoded = [line if isinstance(line, bytes) else orjson.dumps(line) for line in given]
        (folder / f"{resource.alias}.ndjson").write_bytes(b"".join(line + b"\n" for line in encoded))
    return folder
