"""Index names: an alias per resource, and numbered generations behind it (`listings-v0007`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_GENERATION = re.compile(r"(?P<alias>[a-z][a-z0-9_-]*)-v(?P<number>\d{4,})")


@dataclass(frozen=True, order=True)
class Generation:
    """One build of a resource's index. Generations of an alias sort by number."""

    alias: str
    number: int

    def __str__(self) -> str:
        """Return the index name."""
        return f"{self.alias}-v{self.number:04d}"

    @property
    def following(self) -> Generation:
        """The next generation of the same alias."""
        return Generation(self.alias, self.number + 1)


def served_alias(index: str) -> str:
    """Return the alias that a generation of several shards has only while it is live: `listings-served-v0008`."""
    alias, _, number = index.rpartition("-")
    return f"{alias}-served-{number}"


def served_pattern(alias: str) -> str:
    """Return a pattern for these aliases of all generations, as in the names of a role: `listings-served-*`."""
    return f"{alias}-served-*"


def parse_generation(index: str) -> Generation | None:
    """Return the generation with an index name, None for any other name."""
    match = _GENERATION.fullmatch(index)
    if match is None:
        return None
    generation = Generation(match["alias"], int(match["number"]))
    return generation if str(generation) == index else None
