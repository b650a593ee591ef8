"""The column map: a TOML file that declares how the rows of a CSV file become envelopes.

Its keys are the members of the envelope and of the record, each set to a constant or to the cells that it comes from.
The type of a value follows from the declaration of the field (`mappings`), not from the column map.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from indexer.errors import SourceError
from mappings import COMPANY, RESOURCES
from mappings.fields import Field, FieldKind, boolean, date_time, integer, string
from mappings.record_type import record_type

if TYPE_CHECKING:
    from pathlib import Path

    from mappings import Resource

    Scalar = str | int | float | bool

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}

_COMMON_MEMBERS = (date_time("updated_at"), string("platform_company_id"), boolean("deleted"))
# Members of some resources' envelopes only (`Resource.envelope_members`).
_OPTIONAL_MEMBERS = (
    date_time("shared_partner_data_updated_at"),
    integer("property_type_id"),
    string("source_agent_id"),
    date_time("deactivated_at"),
    string("parent_company_id"),
)


class CellSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value from one cell (`column`) or from several (`template`, as in `{street} {number}`).

    `map` translates the text; a text it lacks becomes `default`, or is an error without one. If any of the cells is
    empty, there is no value.
    """

    column: str | None = None
    template: str | None = None
    map: dict[str, str | int | float | bool] | None = None
    default: str | int | float | bool | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid combination."""
        if (self.column is None) == (self.template is None):
            raise ValueError("Give either `column` or `template`")
        if self.template is not None and not self.columns:
            raise ValueError("The template has no column: write {column name}")
        if self.default is not None and self.map is None:
            raise ValueError("`default` is for texts that are not in `map`: add a `map`")

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read."""
        return [self.column] if self.template is None and self.column else _PLACEHOLDER.findall(self.template or "")

    @property
    def literals(self) -> list[str]:
        """The texts before, between and after the columns."""
        return ["", ""] if self.template is None else _PLACEHOLDER.split(self.template)[::2]


class DatedCellSource(CellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A date or date-time: `format` is a `strptime` format, ISO 8601 if absent. Without an offset it is UTC."""

    format: str | None = None


class UntypedCellSource(CellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value of a field whose type the contract does not state."""

    type: Literal["string", "integer", "number", "boolean"] = "string"


_TYPES: dict[FieldKind, Any] = {
    FieldKind.STRING: CellSource | str,
    FieldKind.DATE: DatedCellSource | str,
    FieldKind.DATE_TIME: DatedCellSource | str,
    FieldKind.INTEGER: CellSource | int | float,
    FieldKind.UNIX: CellSource | int,
    FieldKind.NUMBER: CellSource | int | float,
    FieldKind.BOOLEAN: CellSource | bool,
    FieldKind.UNTYPED: UntypedCellSource | str | int | float | bool,
    FieldKind.STRINGS: list[CellSource | str],
    FieldKind.UNTYPED_LIST: list[UntypedCellSource | str | int | float | bool],
}


class _ResourceKey(msgspec.Struct):
    resource: str


def envelope_fields(resource: Resource) -> tuple[Field, ...]:
    """Return the members of a resource's envelope, except the record."""
    return _COMMON_MEMBERS + tuple(field for field in _OPTIONAL_MEMBERS if field.name in resource.envelope_members)


def read_column_map(path: Path) -> tuple[Resource, Any]:
    """Return the resource and its `column_map_type`; raise SourceError, which names the key at fault."""
    try:
        data = path.read_bytes()
        alias = msgspec.toml.decode(data, type=_ResourceKey).resource
        if alias not in _BY_ALIAS:
            raise SourceError(f"{path.name}: resource is {alias!r}: use one of {', '.join(_BY_ALIAS)}.")
        resource = _BY_ALIAS[alias]
        declared = msgspec.toml.decode(data, type=column_map_type(resource))
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise SourceError(f"{path.name} is not a valid column map: {error}.") from error
    _check_company(path, resource, declared)
    return resource, declared


def _check_company(path: Path, resource: Resource, declared: Any) -> None:
    if resource is COMPANY:
        if declared.company is not None:
            raise SourceError(f"{path.name}: the rows are companies: remove [company].")
    elif declared.company is None and declared.platform_company_id is None:
        raise SourceError(f"{path.name}: platform_company_id is missing: set it, or add [company].")


@cache
def column_map_type(resource: Resource) -> type[msgspec.Struct]:
    """Return the type of a column map: the envelope's members, `record`, `resource`, `file` and `company`."""
    record = [(field.name, _type(field), *_optional(field, resource.identifier)) for field in resource.stored]
    members = [(field.name, _type(field), *_optional(field, "updated_at")) for field in envelope_fields(resource)]
    others: list[Any] = [("resource", str), ("file", str), ("company", record_type(COMPANY) | None, None)]
    record_map = msgspec.defstruct("RecordMap", record, kw_only=True, forbid_unknown_fields=True)
    return msgspec.defstruct(
        "ColumnMap", [*others, *members, ("record", record_map)], kw_only=True, forbid_unknown_fields=True
    )


def _optional(field: Field, required: str) -> tuple[None, ...]:
    return () if field.name == required else (None,)


def _type(field: Field) -> Any:
    if not field.members:
        return _TYPES[field.kind] if field.name == "updated_at" else _TYPES[field.kind] | None
    members = [(member.name, _type(member), None) for member in field.members]
    struct = msgspec.defstruct(f"{field.name}Map", members, kw_only=True, forbid_unknown_fields=True)
    return list[struct] | None if field.kind is FieldKind.OBJECTS else struct | None  # type: ignore[valid-type]
