"""Seeded chance: every part of the source has a generator of its own, so that one part does not shift another."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def seeded_random(seed: int, purpose: str) -> Random:
    """Return the generator of one purpose; the same seed and purpose give the same numbers everywhere."""
    return Random(f"{seed}:{purpose}")  # noqa: S311 - sample data guards nothing


def pick(chance: Random, items: Sequence[T]) -> T:
    """Return one of `items`. Several times faster than `Random.choice`, which counts at a million records."""
    return items[int(chance.random() * len(items))]


def between(chance: Random, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`, both included."""
    return low + int(chance.random() * (high - low + 1))


def weighted_list(shares: Mapping[T, int]) -> list[T]:
    """Return a list to `pick` from in which each item stands as often as its share says."""
    return [item for item, share in shares.items() for _ in range(share)]


def uuid(chance: Random) -> str:
    """Return a random UUID (RFC 9562, version 4) in lower case."""
    digits = f"{chance.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def phone(chance: Random) -> str:
    """Return a telephone number of the range that is set aside for fiction (555-0100 to 555-0199)."""
    return f"({pick(chance, ('206', '253', '425'))}) 555-{between(chance, 100, 199):04d}"
