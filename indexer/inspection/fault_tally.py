"""A tally of faults by kind: faults that differ only in the value are of one kind."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indexer.source.lines import RejectedLine

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_COLUMN = re.compile(r"column (.+?): ")
_MAX_KINDS = 200
_MAX_EXAMPLES = 5
_MAX_VALUE_CHARACTERS = 80
OTHER_KINDS = "other kinds of faults"


@dataclass(frozen=True)
class FaultExample:
    """Where a fault is, and the value at fault if there is one."""

    file: str
    line: int
    value: str | None

    def __str__(self) -> str:
        """Return file, line and value in one text."""
        return f"{self.file}:{self.line}" + (f": {self.value}" if self.value is not None else "")


@dataclass
class FaultKind:
    """A kind of fault: the field, the column if the source has columns, the reason without the value, its number."""

    field: str
    column: str | None
    reason: str
    count: int = 0
    examples: list[FaultExample] = dataclasses.field(default_factory=list)


class FaultTally:
    """Counts faults in bounded memory."""

    def __init__(self) -> None:
        """Start without faults."""
        self._kinds: dict[tuple[str, str], FaultKind] = {}

    def add(self, item: RejectedLine) -> None:
        """Count the fault of a rejected line."""
        reason, value = _without_value(item.error.reason)
        kind = self._kind(item.error.field, reason)
        kind.count += 1
        if len(kind.examples) < _MAX_EXAMPLES:
            kind.examples.append(FaultExample(item.line.file, item.number, value))

    def _kind(self, path: str, reason: str) -> FaultKind:
        key = (path, reason)
        if key not in self._kinds and len(self._kinds) >= _MAX_KINDS:
            key = ("", OTHER_KINDS)
        if key not in self._kinds:
            column = _COLUMN.match(reason)
            self._kinds[key] = FaultKind(key[0], column[1] if column else None, key[1][column.end() if column else 0 :])
        return self._kinds[key]

    @property
    def kinds(self) -> list[FaultKind]:
        """The kinds, the most frequent first."""
        return sorted(self._kinds.values(), key=lambda kind: -kind.count)


def _without_value(reason: str) -> tuple[str, str | None]:
    """Return a reason with its first quoted value left out, and that value."""
    match = _QUOTED.search(reason)
    if match is None:
        return reason, None
    value = match[1] if match[1] is not None else match[2]
    return f"{reason[: match.start()]}…{reason[match.end() :]}", value[:_MAX_VALUE_CHARACTERS]
