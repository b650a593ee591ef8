"""Lookup tables by normalized name, because sources spell the same value differently."""

from collections.abc import Iterable, Mapping

from mappings.values.normalization import normalize_lookup


def normalize_names(names: Iterable[str]) -> frozenset[str]:
    """Return the normalized names."""
    return frozenset(normalize_lookup(name) for name in names)


def normalize_keys(declared: Mapping[str, str]) -> dict[str, str]:
    """Return the table with normalized keys."""
    return {normalize_lookup(name): value for name, value in declared.items()}


class PropertyTypeLookup:
    """A table of property types, whose names are `type` or `type/subtype`."""

    def __init__(self, declared: Mapping[str, int]) -> None:
        """Compile the table; a name with several slashes is split at each of them."""
        self._numbers: dict[tuple[str, str], int] = {
            (normalize_lookup(name), ""): number for name, number in declared.items()
        }
        for name, number in declared.items():
            parts = name.split("/")
            for cut in range(1, len(parts)):
                pair = (normalize_lookup("/".join(parts[:cut])), normalize_lookup("/".join(parts[cut:])))
                self._numbers.setdefault(pair, number)

    def find(self, type_name: str, subtypes: Iterable[str]) -> int | None:
        """Return the number of the first known type/subtype pair, else of the type, None for an unknown type."""
        main = normalize_lookup(type_name)
        for subtype in subtypes:
            if (number := self._numbers.get((main, normalize_lookup(subtype)))) is not None:
                return number
        return self._numbers.get((main, ""))
