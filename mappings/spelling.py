"""How the spellings of one value in a lookup are known to be one: `ActiveUnderContract`, `Active Under Contract`."""

from __future__ import annotations

from functools import lru_cache

_LEFT_OUT = str.maketrans("", "", " _-/")


@lru_cache(4096)
def bare(name: str) -> str:
    """Leave out what spellings differ in: case, spaces, underscores, hyphens and slashes."""
    return name.casefold().translate(_LEFT_OUT)


def letters_and_digits(text: str) -> str:
    """Leave out case, spaces and all punctuation."""
    return "".join(character for character in text.casefold() if character.isalnum())
