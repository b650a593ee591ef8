"""Whether the keys of a page ascend: a source that ignores an order would make a walk skip what it has not seen."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from indexer.reso.odata import moment
from mappings.spelling import letters_and_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# Databases order texts by bytes, without case, or by letters and digits alone; numbers may be kept as such.
_ORDERS: tuple[Callable[[str], object], ...] = (str, str.casefold, letters_and_digits)


def is_in_order(keys: Sequence[str]) -> bool:
    """Return whether keys ascend in one of the orders that sources have."""
    if all(key.isdecimal() for key in keys) and _ascend(keys, int):
        return True
    return any(_ascend(keys, order) for order in _ORDERS)


def is_in_order_of_time(times: Sequence[str]) -> bool:
    """Return whether times ascend as moments, or as texts where a source compares these."""
    moments = [told for each in times if (told := moment(each)) is not None]
    by_moment = len(moments) == len(times) and all(one <= other for one, other in pairwise(moments))
    return by_moment or _ascend(times, str)


def _ascend(keys: Sequence[str], order: Callable[[str], object]) -> bool:
    ordered = [order(key) for key in keys]
    return all(one <= other for one, other in pairwise(ordered))  # type: ignore[operator]  # str or int, of one kind
