"""Faults of lines, grouped by kind: the same field, and the same reason apart from values. Memory is bounded."""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from indexer.source.lines import RejectedLine

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
# What differs between faults of one kind: quoted values, numbers, and positions in a list.
_VALUE = re.compile(rf"{_QUOTED.pattern}|[0-9][0-9.,:T+Z-]*")
_COLUMN = re.compile(r"column (.+?): ")
# A source whose faults are all different must not fill the memory.
_MAX_KINDS = 1_000
_MAX_EXAMPLES = 5
_MAX_VALUE_CHARACTERS = 80
_MAX_CHARACTERS = 300
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
    """A kind of fault: the field, the column if the source has columns, the reason without values, how often it occurs.

    `example` is the first occurrence as a sentence: file, line, field and reason.
    """

    field: str
    column: str | None
    reason: str
    example: str
    count: int = 0
    examples: list[FaultExample] = dataclasses.field(default_factory=list)

    def add(self, file: str, line: int, reason: str) -> None:
        """Count a fault; a reason that differs from that of the others replaces theirs, without any values."""
        plain, value = _without_value(reason)
        if plain != self.reason:
            self.reason = _VALUE.sub("…", reason)
        self.count += 1
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(FaultExample(file, line, value))


class FaultTally:
    """Counts faults by kind."""

    def __init__(self) -> None:
        """Start without faults."""
        self._kinds: dict[tuple[str, str], FaultKind] = {}

    def add_line(self, item: RejectedLine) -> None:
        """Count the fault of a rejected line."""
        self.add(item.line.file, item.number, item.error.field, item.error.reason)

    def add(self, file: str, line: int, path: str, reason: str) -> None:
        """Count a fault of a line; `path` is its field, empty if it has none."""
        key = (_VALUE.sub("…", path), _VALUE.sub("…", reason))
        if key not in self._kinds and len(self._kinds) >= _MAX_KINDS:
            key, path, reason = ("", OTHER_KINDS), "", OTHER_KINDS
        found = _COLUMN.match(reason)
        column, rest = (found[1], reason[found.end() :]) if found else (None, reason)
        if key not in self._kinds:
            sentence = ": ".join(filter(None, (f"{file}:{line}", path, reason)))
            self._kinds[key] = FaultKind(path, column, _without_value(rest)[0], _shortened(sentence))
        self._kinds[key].add(file, line, rest)

    def kinds(self, most: int | None = None) -> list[FaultKind]:
        """Return the kinds, or the most frequent of them, the most frequent first."""
        return sorted(self._kinds.values(), key=lambda kind: -kind.count)[:most]


def _without_value(reason: str) -> tuple[str, str | None]:
    """Return a reason with its first quoted value left out, and that value."""
    match = _QUOTED.search(reason)
    if match is None:
        return reason, None
    value = match[1] if match[1] is not None else match[2]
    return f"{reason[: match.start()]}…{reason[match.end() :]}", value[:_MAX_VALUE_CHARACTERS]


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


def fault_lines(kinds: Iterable[FaultKind]) -> Iterator[str]:
    """Yield a line for each kind: its count if there are several, and its first occurrence."""
    return (f"{kind.count:,} like {kind.example}" if kind.count > 1 else kind.example for kind in kinds)
