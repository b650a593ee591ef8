"""Open houses in the index of their listing: one token for each, from which its day, its start and its key are read.

Two search fields have them. In `open_house_days` they begin with the day, in `open_house_starts` with the start. So a
range of tokens is a range of days or of starts, and the tokens of a listing differ. A day or a start that is unknown
is a hyphen, which comes before all digits.
"""

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

DAYS, STARTS = "open_house_days", "open_house_starts"
UNKNOWN = "-"
# Starts are told apart up to here: Elasticsearch expands ranges of minutes below 2^31.
LAST_START = dt.datetime(4000, 1, 1, tzinfo=dt.UTC)
_FIRST = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
_MINUTE = dt.timedelta(minutes=1)
_BY_DAY = re.compile(r"(?P<day>[0-9]{8}|-)(?P<start>[0-9]{12}|-)(?P<suffix>.*)", re.DOTALL)
_BY_START = re.compile(r"(?P<start>[0-9]{12}|-)(?P<day>[0-9]{8}|-)(?P<suffix>.*)", re.DOTALL)


class Token(NamedTuple):
    """An open house: its day, its start, and the suffix of its key."""

    day: str
    start: str
    suffix: str

    @classmethod
    def of(cls, suffix: str, day: object, start: dt.datetime | None) -> Self:
        """Return the token of an open house on a day, a date or its text, at an instant."""
        at = UNKNOWN if start is None else start_text(start)
        return cls("".join(filter(str.isdigit, str(day or ""))) or UNKNOWN, at, suffix)

    @classmethod
    def read(cls, field: str, text: str) -> Self:
        """Return a token of a search field."""
        match = (_BY_DAY if field == DAYS else _BY_START).fullmatch(text)
        return cls(**match.groupdict()) if match else cls(UNKNOWN, UNKNOWN, text)

    def text(self, field: str) -> str:
        """Return it as a search field has it."""
        return f"{self.day}{self.start}{self.suffix}" if field == DAYS else f"{self.start}{self.day}{self.suffix}"


def start_text(start: dt.datetime) -> str:
    """Return an instant as ten digits of minutes since the year 1, and two of seconds."""
    minutes, rest = divmod(min(start, LAST_START) - _FIRST, _MINUTE)
    return f"{minutes:010}{rest.seconds:02}"


def identity(day: object, time: object) -> str:
    """Return day and local start, for example 20261124T130000: the end and the remarks of an open house may change."""
    texts = ("".join(filter(str.isalnum, str(part or "").encode("ascii", "ignore").decode())) for part in (day, time))
    return "T".join(texts)


def numbered(identities: Iterable[str]) -> Iterator[str]:
    """Yield what identifies each element of a list; equal ones are numbered in their order."""
    times: dict[str, int] = {}
    for text in identities:
        times[text] = times.get(text, 0) + 1
        yield text if times[text] == 1 else f"{text}-{times[text]}"
