"""The few forms of OData questions that replication asks: by key, by time and key, by keys. Never `$skip`."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from mappings.dictionary import MODIFIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SEQUENCE = "EntityEventSequence"


def literal(text: str) -> str:
    """Return a text as OData writes it."""
    return "'" + text.replace("'", "''") + "'"


def moment(value: str) -> dt.datetime | None:
    """Return an ISO 8601 moment, None for anything else; what names no offset is UTC."""
    try:
        parsed = dt.datetime.fromisoformat(value)
    except ValueError:
        return None
    return parsed.replace(tzinfo=dt.UTC) if parsed.tzinfo is None else parsed


def spelt(value: dt.datetime) -> str:
    """Return a moment with milliseconds and `Z`: the one form that sources which compare texts get right."""
    return value.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Question:
    """A question for records of one entity."""

    entity: str
    select: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    order: str = ""
    top: int | None = None
    page: int | None = None  # records a page that are wished for
    counts: bool = False  # whether the number of all is asked for

    def where(self, *filters: str) -> Question:
        """Return the same question for fewer records; an empty text filters nothing."""
        return replace(self, filters=(*self.filters, *(each for each in filters if each)))

    @property
    def query(self) -> str:
        """The query string, encoded."""
        options = {
            "$select": ",".join(self.select),
            "$filter": " and ".join(f"({each})" if len(self.filters) > 1 else each for each in self.filters),
            "$orderby": self.order,
            "$top": "" if self.top is None else str(self.top),
            "$count": "true" if self.counts else "",
        }
        return "&".join(f"{name}={quote(value, safe=',()')}" for name, value in options.items() if value)


def after_key(key: str, last: str | None) -> str:
    """Return the filter for what comes behind a key; nothing before the first page."""
    return "" if last is None else f"{key} gt {literal(last)}"


def after_moment(key: str, last: tuple[str, str]) -> str:
    """Return the filter for what comes behind a time and, within it, a key: records may share a time."""
    time, at = last
    return f"{MODIFIED} gt {time} or ({MODIFIED} eq {time} and {key} gt {literal(at)})"


def among(key: str, keys: Sequence[str], *, spelt_out: bool = False) -> str:
    """Return the filter for some keys; spelt out for sources that do not know `in`."""
    if spelt_out:
        return " or ".join(f"{key} eq {literal(each)}" for each in keys)
    return f"{key} in ({','.join(literal(each) for each in keys)})"


def in_batches(keys: Iterable[str], most: int, length: int = 1500) -> list[list[str]]:
    """Cut keys into batches of so many, and of so many characters: a source may refuse a long address."""
    batches: list[list[str]] = [[]]
    room = length
    for key in keys:
        cost = len(quote(literal(key))) + 1
        if batches[-1] and (len(batches[-1]) == most or cost > room):
            batches.append([])
            room = length
        batches[-1].append(key)
        room -= cost
    return [batch for batch in batches if batch]
