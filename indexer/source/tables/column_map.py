"""The column map: a TOML file that declares how the rows of tables become envelopes, of one resource or of several.

Its keys are the members of the envelope and of the record, each set to a constant or to the cells that it comes from.
The type of a value follows from the declaration of the field (`mappings`), not from the column map. Other keys say how
the text of all cells is written.
"""

import codecs
import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from indexer.errors import SourceError
from indexer.settings import TroublePolicy
from indexer.source.tables.local_times import Ambiguous, zone
from indexer.toml_files import read_toml
from mappings import COMPANY, RESOURCES, Resource
from mappings.fields import Field, FieldKind, boolean, date_time, integer, nested, string
from mappings.history import DICTIONARY_FIELDS
from mappings.listing import HISTORY, TIME_ZONE
from mappings.record_schema import record_type

_MAX_TITLE_LINES = 1_000
# What becomes of a cell that cannot be read: it has no value, or it makes the row a bad record.
OnError = Literal["empty", "reject"]


def check_pattern(key: str, pattern: str) -> None:
    """Raise ValueError for a text that is no regular expression, or an empty one, which everything matches."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"`{key}` is {pattern!r}, which is not a regular expression: {error}") from None
    if not pattern:
        raise ValueError(f"`{key}` is empty: give a regular expression, such as ^Total")


class TextPattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A regular expression that some part of a text matches; `^` and `$` are its start and end."""

    matches: str

    def __post_init__(self) -> None:
        """Raise ValueError for a pattern that cannot be used."""
        check_pattern("matches", self.matches)


class TableFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`files` are names, folders or patterns relative to the column map.

    `sheet` is that of an Excel workbook, by default the first. Without `encoding` and `delimiter` both are detected.
    `header_at` is the line of the header, which is found by its columns if absent; `footer` is a regular expression of
    the first text of the last row, which is left out. `empty` has texts that count as an empty cell; `trim` has
    characters to remove, besides blanks, from both ends of cells. `skip_if` has texts and patterns by column: a row
    with one of them is left out. With `pass_through`, a column that has the name of a field is that field. `on_error`
    says what becomes of cells that cannot be read,
    `trouble_policy` what becomes of a record whose newest row cannot be read.
    """

    file: str | None = None
    files: list[str] | None = None
    sheet: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    quote: str = '"'
    decimal: str = "."
    thousands: str = ""
    currency: str | list[str] = ""
    date_format: str | list[str] | None = None
    date_time_format: str | list[str] | None = None
    time_zone: str | None = None
    ambiguous: Ambiguous | None = None
    empty: list[str] = []
    trim: str = ""
    header_at: Annotated[int, msgspec.Meta(ge=1, le=_MAX_TITLE_LINES)] | None = None
    footer: str | None = None
    skip_if: dict[str, str | TextPattern | list[str | TextPattern]] = {}
    on_error: OnError | None = None
    pass_through: bool = False
    trouble_policy: TroublePolicy | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a key that cannot be used."""
        if (self.file is None) == (not self.files):
            raise ValueError("Give either `file` or `files`")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"`delimiter` is {self.delimiter!r}: give one character, such as ; or \\t")
        if len(self.quote) > 1:
            raise ValueError(f"`quote` is {self.quote!r}: give one character, or an empty text for none")
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.footer is not None:
            check_pattern("footer", self.footer)
        check_number_signs(self.decimal, self.thousands)
        if self.time_zone is not None:
            zone(self.time_zone)

    @property
    def patterns(self) -> list[str]:
        """The names of the files, folders or patterns."""
        return self.files or [self.file or ""]


def check_number_signs(decimal: str, thousands: str) -> None:
    """Raise ValueError for signs that make numbers ambiguous."""
    if decimal not in {".", ","}:
        raise ValueError(f"`decimal` is {decimal!r}: use . or ,")
    if len(thousands) > 1 or thousands == decimal or thousands.isalnum():
        raise ValueError(f"`thousands` is {thousands!r}: give one character other than `decimal`, or an empty text")


def _check_encoding(name: str) -> None:
    try:
        is_text = codecs.lookup(name)._is_text_encoding  # noqa: SLF001 - the only way to exclude codecs such as hex
    except LookupError:
        is_text = False
    if not is_text:
        raise ValueError(f"`encoding` is {name!r}: use a name such as utf-8, windows-1252 or utf-16")


def texts(value: str | list[str] | None) -> list[str]:
    """Return one text or several as a list, without empty ones."""
    return [text for text in ([value] if isinstance(value, str) else value or []) if text]


# Of a column, in a template or a formula.
PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_MAX_DIGITS = 64
_ORIGINS = ("column", "template", "join", "uuid5", "formula")


class CellSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value from one cell (`column`), or from several.

    `template` is a text such as `{street} {number}`, without a value if one of its cells is empty. `join` lists
    columns: the cells that are not empty are joined with `separator`. `uuid5` is a template whose text, with the
    company, becomes a name-based UUID. `replace` exchanges parts of the text, then `map` translates it; a text that
    `map` lacks becomes `default`, stays as it is with `keep_unmapped`, or is an error. `split` separates a cell into
    the elements of a list. `on_error` is that of the table if absent.

    Before all of this each cell is repaired: it is empty if `empty_if` has its text, or later the number that it is;
    `whole` makes whole numbers of `5.0`; `pad` puts zeros before digits up to a width.
    """

    column: str | None = None
    template: str | None = None
    join: list[str] | None = None
    uuid5: str | None = None
    separator: str | None = None
    replace: dict[str, str] | None = None
    map: dict[str, str | int | float | bool] | None = None
    default: str | int | float | bool | None = None
    keep_unmapped: bool = False
    split: str | None = None
    empty_if: list[str | int | float] = []
    whole: bool = False
    pad: Annotated[int, msgspec.Meta(ge=1, le=_MAX_DIGITS)] | None = None
    on_error: OnError | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid combination."""
        known = [name for name in _ORIGINS if name in self.__struct_fields__]
        given = [name for name in known if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("Give one of " + ", ".join(f"`{name}`" for name in known))
        if not self.columns or not all(self.columns):
            raise ValueError(_NO_COLUMN[given[0]])
        if (self.default is not None or self.keep_unmapped) and self.map is None:
            name = "default" if self.default is not None else "keep_unmapped"
            raise ValueError(f"`{name}` is for texts that are not in `map`: add a `map`")
        if self.separator is not None and self.join is None:
            raise ValueError("`separator` is for `join`: add a `join`")
        if given == ["formula"] and (self.map or self.replace or self.split):
            raise ValueError("A `formula` cannot have `map`, `replace` or `split`")
        if self.split == "":
            raise ValueError("`split` is empty: give the text that separates the values")

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return self.split is not None

    @property
    def text(self) -> str:
        """The text with placeholders; empty for `column` and `join`."""
        return self.template or self.uuid5 or ""

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read."""
        if self.column is not None:
            return [self.column]
        return self.join if self.join is not None else PLACEHOLDER.findall(self.text)

    @property
    def literals(self) -> list[str]:
        """The texts before, between and after the columns of a text with placeholders."""
        return PLACEHOLDER.split(self.text)[::2]


_NO_COLUMN = {
    "column": "`column` is empty: give the name of a column, or give the column a name in the file",
    "template": "The template has no column: write {column name}",
    "uuid5": "`uuid5` has no column: write {column name}",
    "formula": "The formula has no column: write {column name}",
    "join": "`join` has no columns, or an empty name",
}


class TextCellSource(CellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text; `time_format` is the `strptime` format of a time of day, which becomes HH:MM:SS."""

    time_format: str | list[str] | None = None


class NumberCellSource(CellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number, or a `formula` such as `{Lot SqFt} / 43560`.

    `units` has texts behind numbers and what they multiply them by: `{K = 1000, ac = 1}`. With `weights`, a cell such
    as `3/1` is the sum of its parts, multiplied by `[1, 0.5]`. The other members override those of the table.
    """

    formula: str | None = None
    units: dict[str, int | float] = {}
    weights: list[int | float] | None = None
    decimal: str | None = None
    thousands: str | None = None
    currency: str | list[str] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid combination."""
        super().__post_init__()
        if wrong := [unit for unit in self.units if not unit or unit[-1].isdigit() or unit[0].isdigit()]:
            raise ValueError(f"`units` has {wrong[0]!r}: give a text that is behind numbers, such as K")
        if self.weights is not None and (self.split is None or self.map is not None):
            raise ValueError('`weights` is for the parts of a cell: give `split`, such as "/", and no `map`')

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return self.split is not None and self.weights is None

    @property
    def text(self) -> str:
        """The text with placeholders; empty for `column` and `join`."""
        return self.template or self.uuid5 or self.formula or ""


class DatedCellSource(CellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A date or date-time: `format` has `strptime` formats, the first that fits counts; ISO 8601 if absent.

    A text without an offset is in `time_zone`; `ambiguous` says which hour is meant of one that comes twice. Both are
    by default those of the table.
    """

    format: str | list[str] | None = None
    time_zone: str | None = None
    ambiguous: Ambiguous | None = None


class UnixCellSource(NumberCellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds since 1970: a number, or with `format` a date-time."""

    format: str | list[str] | None = None
    time_zone: str | None = None
    ambiguous: Ambiguous | None = None


class UntypedCellSource(NumberCellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value of a field whose type the contract does not state."""

    type: Literal["string", "integer", "number", "boolean"] | None = None


ON_CHANGE = "on change"
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}
_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]*)`")

_COMMON_MEMBERS = (date_time("updated_at"), string("platform_company_id"), boolean("deleted"))
# Members of some resources' envelopes only (`Resource.envelope_members`).
_OPTIONAL_MEMBERS = (
    date_time("shared_partner_data_updated_at"),
    integer("property_type_id"),
    string(TIME_ZONE),
    nested(HISTORY, "What the source says of earlier states.", *DICTIONARY_FIELDS, object_name="History"),
    string("source_agent_id"),
    date_time("deactivated_at"),
    string("parent_company_id"),
)
# Keys above the tables of a map of several resources that hold for all of them.
_SHARED = frozenset({"updated_at", "platform_company_id", "company", "companies", *TableFormat.__struct_fields__})

CELL_TYPES: dict[FieldKind, Any] = {
    FieldKind.STRING: TextCellSource,
    FieldKind.DATE: DatedCellSource,
    FieldKind.DATE_TIME: DatedCellSource,
    FieldKind.INTEGER: NumberCellSource,
    FieldKind.UNIX: UnixCellSource,
    FieldKind.NUMBER: NumberCellSource,
    FieldKind.BOOLEAN: TextCellSource,
    FieldKind.UNTYPED: UntypedCellSource,
}
_TYPES: dict[FieldKind, Any] = {
    FieldKind.STRING: TextCellSource | str,
    FieldKind.DATE: DatedCellSource | str,
    FieldKind.DATE_TIME: DatedCellSource | str,
    FieldKind.INTEGER: NumberCellSource | int | float,
    FieldKind.UNIX: UnixCellSource | int,
    FieldKind.NUMBER: NumberCellSource | int | float,
    FieldKind.BOOLEAN: TextCellSource | bool,
    FieldKind.UNTYPED: UntypedCellSource | str | int | float | bool,
    FieldKind.STRINGS: list[TextCellSource | str],
    FieldKind.UNTYPED_LIST: list[UntypedCellSource | str | int | float | bool],
}


@dataclass(frozen=True)
class ColumnMap:
    """The map of one resource's tables: `declared` is its `_column_map_type`, `name` is how messages refer to it."""

    path: Path
    name: str
    resource: Resource
    declared: Any

    @property
    def company(self) -> Any:
        """The record of the company that the map declares, or None."""
        return self.declared.company


def columns_of(declared: object) -> Iterator[str]:
    """Yield the columns that a column map, or a part of one, reads."""
    if isinstance(declared, CellSource):
        yield from declared.columns
    elif isinstance(declared, list):
        for one in declared:
            yield from columns_of(one)
    elif isinstance(declared, msgspec.Struct):
        for name in declared.__struct_fields__:
            yield from columns_of(getattr(declared, name))
    if isinstance(declared, TableFormat):
        yield from declared.skip_if


_REPEATED = re.compile(r"(?P<name>.+) \((?P<number>[1-9][0-9]?)\)")


def column_index(columns: list[str], name: str) -> int | None:
    """Return the position of a column, None without exactly one; `Price (2)` is the second that is named Price."""
    if columns.count(name) == 1:
        return columns.index(name)
    if (match := _REPEATED.fullmatch(name)) is None or columns.count(match["name"]) == 1:
        return None
    found = [index for index, column in enumerate(columns) if column == match["name"]]
    return found[int(match["number"]) - 1] if int(match["number"]) <= len(found) else None


def numbered_columns(columns: list[str]) -> list[str]:
    """Return the names by which a column map can name columns: those that several have, with their numbers."""
    counts, numbers = Counter(columns), Counter[str]()
    numbered = []
    for name in columns:
        numbers[name] += 1
        numbered.append(f"{name} ({numbers[name]})" if name and counts[name] > 1 else name)
    return numbered


def envelope_fields(resource: Resource) -> tuple[Field, ...]:
    """Return the members of a resource's envelope, except the record."""
    return _COMMON_MEMBERS + tuple(field for field in _OPTIONAL_MEMBERS if field.name in resource.envelope_members)


def is_column_map(path: Path) -> bool:
    """Whether a TOML file is meant as a column map: it names a resource, or cannot be read."""
    try:
        data = read_toml(path)
    except SourceError:
        return True
    return "resource" in data or any(isinstance(data.get(alias), dict) for alias in _BY_ALIAS)


def read_column_maps(path: Path) -> list[ColumnMap]:
    """Return the maps in a TOML file; raise SourceError, which names the key at fault."""
    data = read_toml(path)
    if "resource" in data:
        return [_column_map(path, path.name, data.pop("resource"), data)]
    tables = {alias: data[alias] for alias in _BY_ALIAS if isinstance(data.get(alias), dict)}
    if not tables:
        raise SourceError(f"{path.name} is not a valid column map: give `resource`, or a table such as [listings].")
    shared = {key: value for key, value in data.items() if key not in tables}
    if unknown := [key for key in shared if key not in _SHARED]:
        known = [*_SHARED, *_BY_ALIAS]
        raise SourceError(
            f"{path.name} is not a valid column map: unknown field `{unknown[0]}`.{_suggestion(unknown[0], known)}"
        )
    return [
        _column_map(path, f"{path.name} [{alias}]", alias, {**_shared_with(alias, shared), **table})
        for alias, table in tables.items()
    ]


def _shared_with(alias: str, shared: dict[str, Any]) -> dict[str, Any]:
    """Return the shared keys of a table; companies have no company."""
    left_out = {"company", "platform_company_id"} if alias == COMPANY.alias else set()
    return {key: value for key, value in shared.items() if key not in left_out}


def _column_map(path: Path, name: str, alias: object, data: dict[str, Any]) -> ColumnMap:
    resource = _BY_ALIAS.get(alias) if isinstance(alias, str) else None
    if resource is None:
        wrong = f"{name}: resource is {alias!r}: use one of {', '.join(_BY_ALIAS)}."
        raise SourceError(wrong + _suggestion(str(alias), _BY_ALIAS))
    passes_through = data.get("pass_through") is True
    try:
        declared: Any = msgspec.convert(data, _column_map_type(resource, passes_through=passes_through))
    except msgspec.ValidationError as error:
        raise SourceError(f"{name} is not a valid column map: {error}.{_advice(str(error), resource)}") from error
    _check_company(name, resource, declared)
    if declared.platform_company_id is None and declared.company is not None:
        declared = msgspec.structs.replace(declared, platform_company_id=declared.company.platform_company_id)
    return ColumnMap(path, name, resource, declared)


def _check_company(name: str, resource: Resource, declared: Any) -> None:
    if resource is COMPANY:
        if declared.company is not None:
            raise SourceError(f"{name}: the rows are companies: remove [company].")
    elif declared.company is None and declared.platform_company_id is None:
        raise SourceError(f"{name}: platform_company_id is missing: set it, or add [company].")


def _advice(message: str, resource: Resource) -> str:
    """Return the known names that are close to the unknown one of a message."""
    match = _UNKNOWN.search(message)
    return _suggestion(match["name"], _known_names(resource)) if match else ""


def _known_names(resource: Resource) -> set[str]:
    cells = {name for cell in CELL_TYPES.values() for name in cell.__struct_fields__}
    members = {field.name for field in envelope_fields(resource)}
    own = {"companies", "company", "record", *TableFormat.__struct_fields__}
    return cells | members | own | _field_names(resource.stored)


def _field_names(fields: Iterable[Field]) -> set[str]:
    return {name for field in fields for name in (field.name, *_field_names(field.members))}


def _suggestion(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the names that are close to an unknown one, or an empty text."""
    by_folded = {other.casefold(): other for other in sorted(known)}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=2, cutoff=0.7)
    return f" Did you mean {' or '.join(f'`{by_folded[one]}`' for one in close)}?" if close else ""


@cache
def _column_map_type(resource: Resource, *, passes_through: bool = False) -> type[msgspec.Struct]:
    """Return the type of a column map: the keys of `TableFormat`, the envelope's members, and those of the map itself.

    The identifier is required unless columns pass through.
    """
    required = "" if passes_through else resource.identifier
    record = [(field.name, _type(field), *_optional(field, required)) for field in resource.stored]
    members = [(field.name, _type(field), *_optional(field, "updated_at")) for field in envelope_fields(resource)]
    record_map = msgspec.defstruct("RecordMap", record, kw_only=True, forbid_unknown_fields=True)
    own: list[Any] = [("company", record_type(COMPANY) | None, None), ("companies", tuple[str, ...], ()), *members]
    empty = (msgspec.field(default_factory=record_map),) if passes_through else ()
    own.append(("record", record_map, *empty))
    return msgspec.defstruct(
        "TableMap", own, bases=(TableFormat,), kw_only=True, frozen=True, forbid_unknown_fields=True
    )


def _optional(field: Field, required: str) -> tuple[None, ...]:
    return () if field.name == required else (None,)


def _type(field: Field) -> Any:
    if not field.members:
        return _TYPES[field.kind] if field.name == "updated_at" else _TYPES[field.kind] | None
    members = [(member.name, _type(member), None) for member in field.members]
    struct = msgspec.defstruct(f"{field.name}Map", members, kw_only=True, forbid_unknown_fields=True)
    return list[struct] | None if field.kind is FieldKind.OBJECTS else struct | None  # type: ignore[valid-type]
