"""The column map: a TOML file that declares how the rows of a CSV file become envelopes.

Its keys are the members of the envelope and of the record, each with a constant or with the cells that it is made of.
What type a value has follows from the declaration of the field (`mappings`), not from the column map.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from indexer.errors import SourceError
from mappings import COMPANY, RESOURCES
from mappings.fields import Field, Kind, boolean, date_time, integer, string
from mappings.record_type import record_type

if TYPE_CHECKING:
    from pathlib import Path

    from mappings import Resource

    Scalar = str | int | float | bool

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}

_EVERY_ENVELOPE = (date_time("updated_at"), string("platform_company_id"), boolean("deleted"))
# Members that only some resources' envelopes have (`Resource.envelope`).
_SOME_ENVELOPES = (
    date_time("shared_partner_data_updated_at"),
    integer("property_type_id"),
    string("source_agent_id"),
    date_time("deactivated_at"),
    string("parent_company_id"),
)


class Cells(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value from one cell (`column`) or from several (`template`, as in `{street} {number}`).

    `map` looks the text up; what it lacks becomes `default`, without which it is a fault. An empty cell, alone or in a
    template, means that there is no value.
    """

    column: str | None = None
    template: str | None = None
    map: dict[str, str | int | float | bool] | None = None
    default: str | int | float | bool | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a combination that says too little or too much."""
        if (self.column is None) == (self.template is None):
            raise ValueError("Give either `column` or `template`")
        if self.template is not None and not self.columns:
            raise ValueError("The template names no column: write {name of a column}")
        if self.default is not None and self.map is None:
            raise ValueError("`default` is for texts that a `map` lacks: give a `map`")

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [self.column] if self.template is None and self.column else _PLACEHOLDER.findall(self.template or "")

    @property
    def between(self) -> list[str]:
        """The texts before, between and behind the columns."""
        return ["", ""] if self.template is None else _PLACEHOLDER.split(self.template)[::2]


class DatedCells(Cells, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same for days and moments: `format` is one of `strptime`, ISO 8601 without it; UTC without an offset."""

    format: str | None = None


class UntypedCells(Cells, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same for a field whose type the contract does not state."""

    type: Literal["string", "integer", "number", "boolean"] = "string"


_TYPES: dict[Kind, Any] = {
    Kind.STRING: Cells | str,
    Kind.DATE: DatedCells | str,
    Kind.DATE_TIME: DatedCells | str,
    Kind.INTEGER: Cells | int | float,
    Kind.UNIX: Cells | int,
    Kind.NUMBER: Cells | int | float,
    Kind.BOOLEAN: Cells | bool,
    Kind.UNTYPED: UntypedCells | str | int | float | bool,
    Kind.STRINGS: list[Cells | str],
    Kind.UNTYPED_LIST: list[UntypedCells | str | int | float | bool],
}


class _Head(msgspec.Struct):
    resource: str


def envelope_fields(resource: Resource) -> tuple[Field, ...]:
    """Return the members of a resource's envelope beside the record."""
    return _EVERY_ENVELOPE + tuple(field for field in _SOME_ENVELOPES if field.name in resource.envelope)


def read_column_map(path: Path) -> tuple[Resource, Any]:
    """Return the resource and the declaration, an object with `map_type`'s members; raise SourceError with the key."""
    try:
        data = path.read_bytes()
        alias = msgspec.toml.decode(data, type=_Head).resource
        if alias not in _BY_ALIAS:
            raise SourceError(f"{path.name}: resource is {alias!r}: give one of {', '.join(_BY_ALIAS)}.")
        resource = _BY_ALIAS[alias]
        declared = msgspec.toml.decode(data, type=map_type(resource))
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise SourceError(f"{path.name} is no column map: {error}.") from error
    _check_company(path, resource, declared)
    return resource, declared


def _check_company(path: Path, resource: Resource, declared: Any) -> None:
    if resource is COMPANY:
        if declared.company is not None:
            raise SourceError(f"{path.name}: [company] is one company, but the rows are companies: leave it out.")
    elif declared.company is None and declared.platform_company_id is None:
        raise SourceError(f"{path.name}: platform_company_id is missing: say whose the rows are, or give [company].")


@cache
def map_type(resource: Resource) -> type[msgspec.Struct]:
    """Return the type of a column map: the envelope's members, `record`, and `file` and `company` beside them."""
    record = [(field.name, _type(field), *_optional(field, resource.identifier)) for field in resource.stored]
    members = [(field.name, _type(field), *_optional(field, "updated_at")) for field in envelope_fields(resource)]
    beside: list[Any] = [("resource", str), ("file", str), ("company", record_type(COMPANY) | None, None)]
    record_map = msgspec.defstruct("RecordMap", record, kw_only=True, forbid_unknown_fields=True)
    return msgspec.defstruct(
        "ColumnMap", [*beside, *members, ("record", record_map)], kw_only=True, forbid_unknown_fields=True
    )


def _optional(field: Field, required: str) -> tuple[None, ...]:
    return () if field.name == required else (None,)


def _type(field: Field) -> Any:
    if not field.members:
        return _TYPES[field.kind] if field.name == "updated_at" else _TYPES[field.kind] | None
    members = [(member.name, _type(member), None) for member in field.members]
    struct = msgspec.defstruct(f"{field.name}Map", members, kw_only=True, forbid_unknown_fields=True)
    return list[struct] | None if field.kind is Kind.OBJECTS else struct | None  # type: ignore[valid-type]
