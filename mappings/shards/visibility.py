"""Which copy of a record readers see while it moves between two shards of a generation.

Shards become visible one by one, so no order of writes makes a record leave one shard and appear in another at once.
Until the next rebuild both shards keep a copy, and each says at which sequences of the published mark it is hidden: the
old one from the sequence of the move on (`left` marks it for the indexer), the new one before. A reader that knows the
mark `m` asks for what is not hidden at `m`, and finds every record exactly once, whichever shards were refreshed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mappings.stored_document import split_at_stamp

HIDDEN, LEFT = "hidden", "left"
# Of the copies in all shards, the ones that the indexer continues from. An index of one shard has no such field.
LEFT_QUERY: Mapping[str, Any] = {"exists": {"field": LEFT}}

# The last members before the stamp.
_FIRST_MEMBER = b',"hidden":['
_MEMBERS = re.compile(rb',"hidden":\[[^\]]*\](?:,"left":true)?\Z')


class Interval(NamedTuple):
    """The sequences from `start`, included, to `end`, excluded; None for no bound."""

    start: int | None
    end: int | None

    @property
    def bounds(self) -> str:
        """The interval as a value of the field."""
        bounds = {"gte": self.start, "lt": self.end}
        return "{" + ",".join(f'"{name}":{bound}' for name, bound in bounds.items() if bound is not None) + "}"


def read_intervals(values: Iterable[Mapping[str, int]]) -> tuple[Interval, ...]:
    """Return the intervals in a document's field."""
    return tuple(Interval(value.get("gte"), value.get("lt")) for value in values)


def hide(source: bytes, intervals: Iterable[Interval], *, has_left: bool = False) -> bytes:
    """Return the source of a copy that is hidden in the given intervals only; `has_left` marks one that was left."""
    before, rest = split_at_stamp(source)
    bounds = ",".join(interval.bounds for interval in intervals)
    members = f',"{HIDDEN}":[{bounds}]' if bounds else ""
    left = f',"{LEFT}":true' if has_left else ""
    return b"".join((_MEMBERS.sub(b"", before), (members + left).encode(), rest))


def unhide(source: bytes) -> bytes:
    """Return the source of a copy for another generation, where it is the only one."""
    return hide(source, ()) if _FIRST_MEMBER in source else source


def hidden_query(sequence: int) -> dict[str, Any]:
    """Return the query for the copies that readers must not see at a sequence of the published mark."""
    return {"term": {HIDDEN: sequence}}
