"""Cells that a program has damaged: recognised, and repaired if the column map says so, otherwise counted by column.

Data frames write whole numbers as `73289979.0`; spreadsheets write long ones as `7.33E+07` and drop zeros in front.
Both write something where there is no value: `nan`, 0, 1900-01-01.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from cluster.terminal import counted
from mappings.fields import FieldKind

_DECIMAL = re.compile(r"(-?[0-9]+)\.0*").fullmatch
_FRACTION = re.compile(r"-?[0-9]*\.[0-9]+").fullmatch
# As programs write it, with a sign or a decimal point, unlike an identifier such as 24E1234.
_SCIENTIFIC = re.compile(r"[0-9](?:[.,][0-9]+)?[eE]\+[0-9]{2,3}|[0-9][.,][0-9]+[eE][0-9]{1,3}").fullmatch
_MAX_CHARACTERS = 40  # of a damaged cell
_MAX_FLOAT = 2**53  # the largest whole number up to which a float has all digits
_LOST = "is in scientific notation: the program that wrote the file has lost its digits; export the column as text"

# Texts that stand for no value in every column.
NO_VALUE = frozenset(
    {"nan", "NaN", "NAN", "NaT", "<NA>", "NULL", "null", "N/A", "n/a", "inf", "-inf", "Infinity"}
    | {"#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NUM!"}
)
_COORDINATES = frozenset({"Latitude", "Longitude"})
_PROSE = frozenset({"PublicRemarks", "PublicTitle", "Title", "Caption", "Description", "description", "bio"})
# Fields whose texts may be numbers with a fraction.
NUMBERS_AS_TEXT = _COORDINATES | {"BuyerCommissionValue"}
# Numbers that stand for no value, by field.
_NO_SIZE, _NO_YEAR = frozenset({0, 9_999_999, 99_999_999, 999_999_999}), frozenset({0, 9_999})
_NO_NUMBERS = dict.fromkeys(("ListPrice", "SoldPrice", "LivingArea"), _NO_SIZE)
_NO_NUMBERS |= dict.fromkeys(("YearBuilt", "TaxYear"), _NO_YEAR)
_NO_DATES = frozenset({"0001-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1970-01-01", "9999-12-31"})
_DATE_CHARACTERS = 10
ZIP_DIGITS = 5
# Numbers of so many digits, of which so many have the same width, are of one width.
_MIN_DIGITS = 5
_COMMON_SHARE = 0.8


def is_zip_code(name: str) -> bool:
    """Whether a field has zip codes."""
    return name == "PostalCode" or "zip" in name


def is_watched(name: str) -> bool:
    """Whether numbers and texts without a value are looked for in the texts of a field."""
    return name not in NUMBERS_AS_TEXT and name not in _PROSE and "url" not in name.casefold()


def has_lost_digits(text: str) -> bool:
    """Whether a text is a whole number in scientific notation without some of its digits."""
    if not _SCIENTIFIC(text):
        return False
    mantissa, exponent = re.split("[eE]", text)
    return len(mantissa) - 2 < int(exponent) or Decimal(text.replace(",", ".")) > _MAX_FLOAT


def check_digits(text: str) -> str:
    """Return an identifier; raise ValueError, which completes "the text ...", if it has lost digits."""
    if not text.isalnum() and has_lost_digits(text):
        raise ValueError(_LOST)
    return text


def whole(text: str) -> str:
    """Return the digits of a whole number that was written with a decimal point; other texts as they are.

    Raises ValueError, which completes "the text ...".
    """
    if text.isalnum() and not _SCIENTIFIC(text):
        return text
    if has_lost_digits(text):
        raise ValueError(_LOST)
    if _SCIENTIFIC(text):
        return str(int(Decimal(text.replace(",", "."))))
    if (match := _DECIMAL(text)) is None:
        if is_fraction(text):
            raise ValueError("is not a whole number")
        return text
    if abs(int(match[1][:_MAX_CHARACTERS])) > _MAX_FLOAT:
        raise ValueError("has more digits than a number with a decimal point keeps: export the column as text")
    return match[1]


def padded(width: int) -> Callable[[str], str]:
    """Return the function that puts zeros before digits up to a width; other texts stay as they are."""
    return lambda text: text.zfill(width) if text.isdigit() else text


def is_fraction(text: str) -> bool:
    """Whether a text is a number that is not whole."""
    return _FRACTION(text) is not None and _DECIMAL(text) is None


class Sign(NamedTuple):
    """What shows that cells are damaged, and what to do about it."""

    found: str
    advice: str


FRACTION = Sign('with ".0" at the end', "set whole = true")
SCIENTIFIC = Sign("in scientific notation", "export the column as text, or set whole = true if no digits are lost")
NOTHING = Sign("without a value", "add the text to empty")
PLACEHOLDER = Sign("with a placeholder", "add the text to empty_if if it means no value")


def sign_of(text: str) -> Sign | None:
    """Return what shows that a text is damaged, None if nothing does."""
    if text in NO_VALUE:
        return NOTHING
    if text.isdigit() or len(text) > _MAX_CHARACTERS:
        return None
    if _DECIMAL(text):
        return FRACTION
    return SCIENTIFIC if _SCIENTIFIC(text) else None


def placeholder_test(name: str, kind: FieldKind) -> Callable[[Any], bool] | None:
    """Return whether a value of a field stands for no value, None if every value of it is one."""
    if name in _COORDINATES:
        return lambda text: not text.strip("+-0.")
    if kind is FieldKind.DATE:
        return _NO_DATES.__contains__
    if kind is FieldKind.DATE_TIME:
        return lambda text: text[:_DATE_CHARACTERS] in _NO_DATES
    return _NO_NUMBERS[name].__contains__ if name in _NO_NUMBERS else None


def common_width(widths: Mapping[int, int], *, zip_codes: bool) -> int | None:
    """Return how many digits most of some numbers have if zeros in front of the shorter ones may be lost.

    `widths` has how many there are by their digits.
    """
    if len(widths) < 2:
        return None
    common = ZIP_DIGITS if zip_codes else max(widths, key=lambda digits: widths[digits])
    is_common = zip_codes or (common >= _MIN_DIGITS and widths[common] >= _COMMON_SHARE * sum(widths.values()))
    return common if is_common and min(widths) < common in widths else None


def suspicion(name: str, kind: FieldKind, convert: Callable[[str], object]) -> Callable[[str], Sign | None]:
    """Return what tells whether a text of a field is damaged; `convert` makes its value and may raise ValueError."""
    is_placeholder = placeholder_test(name, kind)
    if is_placeholder is None:
        return sign_of

    def placeholder_in(text: str) -> Sign | None:
        with suppress(ValueError):
            if (value := convert(text)) is not None and is_placeholder(value):
                return PLACEHOLDER
        return None

    return placeholder_in


def _suspects() -> Iterator[str]:
    """Yield the texts that may be a damaged cell of some field, besides numbers in a damaged form."""
    yield from NO_VALUE
    yield from (f"{sign}{zero}" for zero in ("0", *("0." + "0" * n for n in range(1, 16))) for sign in ("", "-", "$"))
    for nines in (9_999, *_NO_SIZE):
        yield from (f"{sign}{nines}{end}" for sign in ("", "$") for end in ("", ".0", ".00"))
        yield from (f"{sign}{nines:,}" for sign in ("", "$"))
    for day in map(dt.date.fromisoformat, _NO_DATES):
        written = (
            f"{day.month}/{day.day}/{day.year}",
            *(day.strftime(one) for one in ("%m/%d/%Y", "%Y%m%d", "%d.%m.%Y")),
        )
        for one in (day.isoformat(), *written):
            yield from (one + time for time in ("", " 00:00", " 00:00:00", "T00:00:00", "T00:00:00Z", " 12:00 AM"))


_SUSPECTS = frozenset(_suspects())
_Origin = str  # a field and its column


class CellFindings:
    """What is recognised in the cells of a table and not repaired: how often, and the first example."""

    def __init__(self) -> None:
        self.widths: dict[_Origin, Counter[int]] = {}
        self._counts: Counter[tuple[_Origin, Sign]] = Counter()
        self._examples: dict[tuple[_Origin, Sign | int], str] = {}

    def add(self, origin: _Origin, sign: Sign, example: str) -> None:
        self._counts[origin, sign] += 1
        self._examples.setdefault((origin, sign), example)

    def add_width(self, origin: _Origin, digits: int, example: str) -> None:
        self._examples.setdefault((origin, digits), example)

    def clear(self) -> None:
        """Begin to count again."""
        self._counts.clear()
        self._examples.clear()
        for widths in self.widths.values():
            widths.clear()

    def sentences(self) -> Iterator[str]:
        """Yield what was found, how often, the first example, and what to do; without full stops."""
        for (origin, sign), count in self._counts.items():
            found = f"{counted(count, 'cell')} {sign.found}"
            yield f"{origin}: {found}, such as {self._examples[origin, sign]}: {sign.advice}"
        for origin, widths in self.widths.items():
            if common := common_width(widths, zip_codes=is_zip_code(origin.partition(",")[0])):
                short = sum(count for digits, count in widths.items() if digits < common)
                yield (
                    f"{origin}: {counted(short, 'cell')} with fewer than {common} digits, such as "
                    f"{self._examples[origin, min(widths)]}: set pad = {common} if zeros in front are lost"
                )


_SEPARATOR = "\0"
_Values = Callable[[list[str]], tuple[str, ...]]


def _getter(indices: list[int]) -> _Values:
    """Return the function that gets cells as a tuple; no column is nothing."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda row: tuple(row[index] for index in indices)


def _digits(text: str) -> str:
    """Return the digits of a number that was written with a decimal point; empty for other texts."""
    with suppress(ValueError):
        return digits if (digits := whole(text)).isdigit() else ""
    return ""


class RowWatch:
    """Counts the damaged cells of rows with the same columns, by one look at all cells of a healthy row."""

    def __init__(self, findings: CellFindings) -> None:
        self._findings = findings
        self._watched: list[tuple[int, _Origin, Callable[[str], Sign | None]]] = []
        self._texts: list[int] = []
        self._measured: list[tuple[int, _Origin, Counter[int]]] = []

    def watch(self, index: int, origin: _Origin, suspect: Callable[[str], Sign | None], *, is_text: bool) -> None:
        """Count the cells of a column in which `suspect` finds a sign; numbers are damaged only where they are text."""
        self._watched.append((index, origin, suspect))
        self._texts += [index] if is_text else []

    def measure(self, index: int, origin: _Origin) -> None:
        """Also count how many digits the numbers in a column have."""
        self._measured.append((index, origin, self._findings.widths.setdefault(origin, Counter())))

    @cached_property
    def _values(self) -> _Values:
        return _getter([index for index, _, _ in self._watched])

    @cached_property
    def _text_values(self) -> _Values:
        return _getter(self._texts)

    def add(self, row: list[str], file: str, line: int) -> None:
        """Count the damaged cells of a row."""
        for index, origin, widths in self._measured:
            digits = row[index]
            if digits.isdigit() or (digits := _digits(digits)):
                if (count := len(digits)) not in widths:
                    self._findings.add_width(origin, count, f"{row[index]!r} in {file}:{line}")
                widths[count] += 1
        if not self._watched:
            return
        texts = _SEPARATOR.join(self._text_values(row))
        if ".0" in texts or "+" in texts or not _SUSPECTS.isdisjoint(self._values(row)):
            for index, origin, suspect in self._watched:
                if sign := suspect(text := row[index]):
                    self._findings.add(origin, sign, f"{text!r} in {file}:{line}")
