"""How the text of a table is written: the keys of a column map that apply to all of its cells."""

import codecs
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec


class TableFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`files` are names, folders or patterns relative to the column map.

    Without `encoding` and `delimiter` both are detected.
    `empty` has texts that count as an empty cell; `trim` has characters to remove, besides blanks, from both ends of
    cells. `skip_if` has texts by column: a row with one of them is left out. With `pass_through`, a column that has the
    name of a field is that field.
    """

    file: str | None = None
    files: list[str] | None = None
    encoding: str | None = None
    delimiter: str | None = None
    quote: str = '"'
    decimal: str = "."
    thousands: str = ""
    currency: str | list[str] = ""
    date_format: str | list[str] | None = None
    date_time_format: str | list[str] | None = None
    time_zone: str = "UTC"
    empty: list[str] = []
    trim: str = ""
    skip_if: dict[str, str | list[str]] = {}
    pass_through: bool = False

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
        check_number_signs(self.decimal, self.thousands)
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


def zone(name: str) -> ZoneInfo:
    """Return a time zone; raise ValueError for an unknown one."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"`time_zone` is {name!r}: use a name such as America/New_York") from None


def texts(value: str | list[str] | None) -> list[str]:
    """Return one text or several as a list, without empty ones."""
    return [text for text in ([value] if isinstance(value, str) else value or []) if text]
