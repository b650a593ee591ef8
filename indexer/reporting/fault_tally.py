"""Faults of lines, grouped by kind: the same field, and the same reason apart from values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from indexer.source.lines import RejectedLine

# What differs between faults of one kind: quoted values, numbers, and positions in a list.
_VALUE = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[0-9][0-9.,:T+Z-]*")
# A source whose faults are all different must not fill the memory.
_MAX_KINDS = 1_000
_MAX_CHARACTERS = 300


@dataclass(frozen=True)
class FaultKind:
    """How often a kind of fault occurred, and its first occurrence: file, line, field and reason in one sentence."""

    count: int
    example: str


class FaultTally:
    """Counts faults by kind."""

    def __init__(self) -> None:
        self._examples: dict[tuple[str, str], str] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def add_line(self, item: RejectedLine) -> None:
        """Count the fault of a rejected line."""
        self.add(f"{item.line.file}:{item.number}", item.error.field, item.error.reason)

    def add(self, place: str, field: str, reason: str) -> None:
        """Count a fault; `place` is its file and line."""
        kind = (_VALUE.sub("…", field), _VALUE.sub("…", reason))
        if kind not in self._counts and len(self._counts) >= _MAX_KINDS:
            kind = ("", "")
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._examples.setdefault(kind, _shortened(f"{place}: {field}: {reason}" if field else f"{place}: {reason}"))

    def kinds(self, most: int | None = None) -> list[FaultKind]:
        """Return the kinds, or the most frequent of them, the most frequent first."""
        ordered = sorted(self._counts, key=lambda kind: -self._counts[kind])
        return [FaultKind(self._counts[kind], self._examples[kind]) for kind in ordered[:most]]


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


def fault_lines(kinds: Iterable[FaultKind]) -> Iterator[str]:
    """Yield a line for each kind: its count if there are several, and its first occurrence."""
    return (f"{kind.count:,} like {kind.example}" if kind.count > 1 else kind.example for kind in kinds)
