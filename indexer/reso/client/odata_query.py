"""The OData queries of replication: by key, by timestamp and key, and by a list of keys. Never `$skip`.

Keys are given as OData literals: quoted texts or numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

EVENT_SEQUENCE_FIELD = "EntityEventSequence"
_SAFE = ",()"


def string_literal(text: str) -> str:
    """Return an OData string literal."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class ODataQuery:
    """A query for records of one entity."""

    entity: str
    select: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    order_by: str = ""
    top: int | None = None
    page_size: int | None = None  # preferred records per page; the source may send fewer
    with_count: bool = False  # request the total number of matches
    expand: tuple[str, ...] = ()
    path: str = ""  # behind the name of the entity, such as "/replication"
    option: str = ""  # one more option, such as "replication=true"

    def where(self, *filters: str) -> ODataQuery:
        """Return the query with more filters; empty ones are ignored."""
        return replace(self, filters=(*self.filters, *(text for text in filters if text)))

    def ordered_by(self, order_by: str) -> ODataQuery:
        """Return the query with an order."""
        return replace(self, order_by=order_by)

    @property
    def addressed(self) -> ODataQuery:
        """The query for one of these records by its address."""
        return ODataQuery(self.entity, self.select, expand=self.expand)

    @property
    def query_string(self) -> str:
        """The encoded query string."""
        options = {
            "$select": ",".join(self.select),
            "$filter": " and ".join(f"({text})" if len(self.filters) > 1 else text for text in self.filters),
            "$orderby": self.order_by,
            "$top": "" if self.top is None else str(self.top),
            "$count": "true" if self.with_count else "",
            "$expand": ",".join(self.expand),
        }
        given = [f"{name}={quote(value, safe=_SAFE)}" for name, value in options.items() if value]
        return "&".join([*given, self.option] if self.option else given)


def after_key_filter(key: str, last: str | None) -> str:
    """Return the filter for records after a key; empty for the first page."""
    return "" if last is None else f"{key} gt {last}"


def after_change_filter(modified: str, key: str, last: tuple[str, str]) -> str:
    """Return the filter for records after a (timestamp, key) pair, because records may share a timestamp."""
    time, last_key = last
    return f"{modified} gt {time} or ({modified} eq {time} and {key} gt {last_key})"


def keys_filter(key: str, literals: Sequence[str], *, use_or: bool = False) -> str:
    """Return the filter for a list of keys; `use_or` is for sources that do not support `in`."""
    if use_or:
        return " or ".join(f"{key} eq {literal}" for literal in literals)
    return f"{key} in ({','.join(literals)})"


def batch_keys(keys: Iterable[str], max_keys: int, max_characters: int = 1500) -> list[list[str]]:
    """Split keys into batches limited by count and encoded length, because a source may reject a long URL."""
    batches: list[list[str]] = [[]]
    remaining = max_characters
    for key in keys:
        length = len(quote(string_literal(key))) + 1
        if batches[-1] and (len(batches[-1]) == max_keys or length > remaining):
            batches.append([])
            remaining = max_characters
        batches[-1].append(key)
        remaining -= length
    return [batch for batch in batches if batch]
