"""Normal forms of lookup values, so that `ActiveUnderContract` equals `Active Under Contract`."""

from functools import lru_cache

_SEPARATORS = str.maketrans("", "", " _-/")


@lru_cache(4096)
def normalize_lookup(name: str) -> str:
    """Return a name without case, spaces, underscores, hyphens and slashes."""
    return name.casefold().translate(_SEPARATORS)


def alphanumeric_key(text: str) -> str:
    """Return a text without case, spaces and punctuation."""
    return "".join(character for character in text.casefold() if character.isalnum())
