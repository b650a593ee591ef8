"""A tally of faults by kind, to name the most frequent ones with an example."""

from __future__ import annotations

import re
from collections import Counter

_MAX_SHOWN = 3
# Kinds beyond are counted as one: the memory is bounded whatever a source contains.
_MAX_KINDS = 1_000
_OTHER = "other faults"
# What differs between faults of one kind: quoted values, and numbers.
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")


class FaultTally:
    """Counts faults by field and reason, apart from the values in the reason."""

    def __init__(self) -> None:
        """Start empty."""
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def add(self, field: str, reason: str, place: str) -> None:
        """Count a fault; `place` is its file and line."""
        text = f"{field}: {reason}" if field else reason
        kind = _VALUES.sub("…", text)
        if kind not in self._examples and len(self._examples) >= _MAX_KINDS:
            kind, text = _OTHER, _OTHER
        self._examples.setdefault(kind, f"{text} ({place})")
        self._counts[kind] += 1

    def __str__(self) -> str:
        """The most frequent kinds, with their counts and the first example of each."""
        shown = [f"{count:,} times {self._examples[kind]}" for kind, count in self._counts.most_common(_MAX_SHOWN)]
        others = self._counts.total() - sum(count for _, count in self._counts.most_common(_MAX_SHOWN))
        return "; ".join([*shown, f"{others:,} others"] if others else shown)
