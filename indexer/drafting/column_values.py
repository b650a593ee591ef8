"""What the values of a column show: how numbers and dates are written, and whether they are identifiers."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from indexer.source.tables.date_texts import parsed_time
from indexer.source.tables.number_texts import number_converter

_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_BOOLEANS = frozenset({"true", "false", "yes", "no", "y", "n", "1", "0"})
_CURRENCIES = "$€£¥"
_EMPTY_TEXTS = frozenset({"N/A", "n/a", "NA", "NULL", "null", "None", "-", "--", "#N/A", "NaN", "nan"})
_DAYS = (
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%Y/%m/%d",
    "%m-%d-%Y",
    "%d-%m-%Y",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%Y%m%d",
)
_WRITTEN_DAYS = ("%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y", "%Y.%m.%d")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
DATE_FORMATS = tuple(day + time for day in (*_DAYS, *_WRITTEN_DAYS) for time in _TIMES)
# Signs of a number: decimal and thousands; the first that fits all values counts.
_NUMBER_SIGNS = ((".", ""), (".", ","), (",", "."), (",", ""), (".", " "), (",", " "), (".", "'"))
_STATES = frozenset(
    re.findall(
        "..",
        "ALAKAZARCACOCTDEDCFLGAHIIDILINIAKSKYLAMEMDMAMIMNMSMOMTNENVNHNJNMNYNCNDOHOKORPARISCSDTNTXUTVTVAWAWVWIWYPR",
    )
)
_ZIP = re.compile(r"[0-9]{5}(-[0-9]{4})?")


@dataclass(frozen=True)
class NumberForm:
    """How numbers are written."""

    decimal: str
    thousands: str
    currency: tuple[str, ...]
    has_fractions: bool


@dataclass(frozen=True)
class DateForm:
    """How dates are written: ISO 8601 without a format. It `is_ambiguous` if day and month could be exchanged."""

    format: str | None
    is_ambiguous: bool = False


class ColumnValues:
    """A sample of a column's values that are not empty."""

    def __init__(self, values: Sequence[str]) -> None:
        """Leave out empty values, and texts that mean the same."""
        self.all = [value for value in values if value]
        self.empty_texts = sorted({value for value in self.all if value in _EMPTY_TEXTS})
        self.values = [value for value in self.all if value not in _EMPTY_TEXTS]
        self.different = Counter(self.values)

    @property
    def example(self) -> str:
        """The first value."""
        return self.values[0] if self.values else ""

    @property
    def are_uuids(self) -> bool:
        """Whether all values are UUIDs."""
        return bool(self.values) and all(map(_UUID.fullmatch, self.different))

    @property
    def are_booleans(self) -> bool:
        """Whether all values are texts for yes or no."""
        return bool(self.values) and all(value.casefold() in _BOOLEANS for value in self.different)

    @property
    def are_unique(self) -> bool:
        """Whether no value is repeated."""
        return bool(self.values) and len(self.different) == len(self.values)

    @property
    def meaning(self) -> str | None:
        """A field of listings that the values alone suggest."""
        if not self.values:
            return None
        if all(value in _STATES for value in self.different):
            return "StateOrProvince"
        if all(map(_ZIP.fullmatch, self.different)):
            return "PostalCode"
        return "ListPrice" if all(value[0] in _CURRENCIES for value in self.different) else None

    def are_numbers(self, form: NumberForm) -> bool:
        """Whether all values are numbers in a form."""
        convert = number_converter(form.decimal, form.thousands, form.currency)
        with suppress(ValueError):
            return all(convert(value) is not None for value in self.different)
        return False

    @property
    def number_form(self) -> NumberForm | None:
        """How the values are numbers, None if they are not."""
        signs = tuple(sign for sign in _CURRENCIES if any(sign in value for value in self.different))
        for decimal, thousands in _NUMBER_SIGNS if self.values else ():
            convert = number_converter(decimal, thousands, signs)
            with suppress(ValueError):
                numbers = [convert(value) for value in self.different]
                return NumberForm(decimal, thousands, signs, any(number % 1 for number in numbers))
        return None

    @property
    def date_form(self) -> DateForm | None:
        """How the values are dates or date-times, None if they are not."""
        if not self.values:
            return None
        if self._are_dates(()):
            return DateForm(None)
        fitting = [one for one in DATE_FORMATS if self._are_dates((one,))]
        swapped = any(one.startswith("%m") for one in fitting) and any(one.startswith("%d") for one in fitting)
        return DateForm(fitting[0], swapped) if fitting else None

    def _are_dates(self, formats: Sequence[str]) -> bool:
        try:
            years = [parsed_time(value, formats).year for value in self.different]
        except ValueError:
            return False
        return all(1700 < year < dt.MAXYEAR // 4 for year in years)
