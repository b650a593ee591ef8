"""Numbers in values of any type: what a decimal property shows is what its search field has."""

import re
from math import isfinite

_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?)\s*", re.ASCII)


def number_in(value: object) -> float | None:
    """Return a number, also one given as text such as `47.61`; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value)):
        value = float(match[1])
    if not isinstance(value, float) or not isfinite(value):
        return None
    return int(value) if value.is_integer() else value
