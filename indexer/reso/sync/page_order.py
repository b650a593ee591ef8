"""Order checks on pages: a source that ignores `$orderby` would make key pagination skip records."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from indexer.reso.source_time import parse_source_time
from mappings.values.normalization import alphanumeric_key

# Databases collate texts by bytes, case-insensitively, or by letters and digits alone; numeric keys may sort by value.
_COLLATIONS: tuple[Callable[[str], object], ...] = (str, str.casefold, alphanumeric_key)


def is_sorted_by_key(keys: Sequence[str]) -> bool:
    """Return whether keys ascend in one of the collations that sources use."""
    if all(key.isdecimal() for key in keys) and _is_ascending(keys, int):
        return True
    return any(_is_ascending(keys, collation) for collation in _COLLATIONS)


def is_sorted_by_time(times: Sequence[str]) -> bool:
    """Return whether timestamps ascend, as times or as texts: some sources compare the text."""
    parsed = [time for text in times if (time := parse_source_time(text)) is not None]
    if len(parsed) == len(times) and all(one <= other for one, other in pairwise(parsed)):
        return True
    return _is_ascending(times, str)


def _is_ascending(keys: Sequence[str], collation: Callable[[str], object]) -> bool:
    collated = [collation(key) for key in keys]
    return all(one <= other for one, other in pairwise(collated))  # type: ignore[operator]  # all str or all int
