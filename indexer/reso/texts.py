"""What a text of a source says: without what no text needs, and nothing where it is empty or masked."""

from __future__ import annotations

import re

# Characters that JSON, logs or terminals would stumble over; surrogates are halves of characters.
_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def given(value: str) -> str | None:
    """Return a text without unwanted characters and space around it.

    None for an empty one, and for one of nothing but three or more asterisks: so sources mask what may not be seen.
    """
    text = (value if value.isprintable() else _UNWANTED.sub("", value)).strip()
    return None if not text or (text[0] == "*" and is_masked(text)) else text


def is_masked(text: str) -> bool:
    """Whether a text consists of three or more asterisks."""
    return len(text) >= 3 and not text.strip("*")
