"""What a column map declares for one value: the cells that it comes from, and how their text is read."""

import re
from typing import Literal

import msgspec

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_ORIGINS = ("column", "template", "join", "uuid5", "formula")


class CellSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value from one cell (`column`), or from several.

    `template` is a text such as `{street} {number}`, without a value if one of its cells is empty. `join` lists
    columns: the cells that are not empty are joined with `separator`. `uuid5` is a template whose text, with the
    company, becomes a name-based UUID. `replace` exchanges parts of the text, then `map` translates it; a text that
    `map` lacks becomes `default`, stays as it is with `keep_unmapped`, or is an error. `split` separates a cell into
    the elements of a list.
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
    def text(self) -> str:
        """The text with placeholders; empty for `column` and `join`."""
        return self.template or self.uuid5 or ""

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read."""
        if self.column is not None:
            return [self.column]
        return self.join if self.join is not None else _PLACEHOLDER.findall(self.text)

    @property
    def literals(self) -> list[str]:
        """The texts before, between and after the columns of a text with placeholders."""
        return _PLACEHOLDER.split(self.text)[::2]


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
    """A number, or a `formula` such as `{Lot SqFt} / 43560`. The other members override those of the table."""

    formula: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    currency: str | list[str] | None = None

    @property
    def text(self) -> str:
        """The text with placeholders; empty for `column` and `join`."""
        return self.template or self.uuid5 or self.formula or ""


class DatedCellSource(CellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A date or date-time: `format` has `strptime` formats, the first that fits counts; ISO 8601 if absent.

    A text without an offset is in `time_zone`, by default that of the table.
    """

    format: str | list[str] | None = None
    time_zone: str | None = None


class UnixCellSource(NumberCellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds since 1970: a number, or with `format` a date-time."""

    format: str | list[str] | None = None
    time_zone: str | None = None


class UntypedCellSource(NumberCellSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value of a field whose type the contract does not state."""

    type: Literal["string", "integer", "number", "boolean"] | None = None
