"""Lookups by spelling: what is declared for a value that a source may spell in several ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings.spelling import bare

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def among(names: Iterable[str]) -> frozenset[str]:
    """Return the names as `bare` leaves them."""
    return frozenset(bare(name) for name in names)


def statuses(declared: Mapping[str, str]) -> dict[str, str]:
    """Return a table of single values, by what `bare` leaves of them."""
    return {bare(name): value for name, value in declared.items()}


class Types:
    """A table whose names are a type, or a type and a subtype with a slash between them."""

    def __init__(self, declared: Mapping[str, int]) -> None:
        """Prepare the table. A name of several slashes is taken for each pair that it can be."""
        self._numbers: dict[tuple[str, str], int] = {(bare(name), ""): number for name, number in declared.items()}
        for name, number in declared.items():
            parts = name.split("/")
            for cut in range(1, len(parts)):
                pair = (bare("/".join(parts[:cut])), bare("/".join(parts[cut:])))
                self._numbers.setdefault(pair, number)

    def number(self, kind: str, subtypes: Iterable[str]) -> int | None:
        """Return the number of the type with the first subtype that is known, else of the type, else None."""
        main = bare(kind)
        for subtype in subtypes:
            if (number := self._numbers.get((main, bare(subtype)))) is not None:
                return number
        return self._numbers.get((main, ""))
