"""Cleaning of source texts, and the error for a value that cannot be mapped."""

import re

# Characters that break JSON consumers, logs or terminals, and lone surrogates.
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# Characters of a text that a reason repeats.
_MAX_CHARACTERS = 40
# Larger integers are described by their size: Python refuses to print more than 4,300 digits.
_MAX_PRINTED_BITS = 256


class UnmappableValue(Exception):
    """A value that our field cannot hold; `partial` is the usable part of it, None if there is none."""

    def __init__(self, reason: str, partial: object = None) -> None:
        """Take the reason as a phrase that follows the name of a field."""
        super().__init__(reason)
        self.reason = reason
        self.partial = partial


def clean_text(value: str) -> str | None:
    """Return a text without control characters and surrounding whitespace.

    None for an empty text and for a masked one: sources replace values that may not be shown with asterisks.
    """
    text = (value if value.isprintable() else _CONTROL_CHARACTERS.sub("", value)).strip()
    return None if not text or (text[0] == "*" and is_masked(text)) else text


def is_masked(text: str) -> bool:
    """Whether a text consists of three or more asterisks."""
    return len(text) >= 3 and not text.strip("*")


def is_printable_integer(number: int) -> bool:
    """Whether an integer is short enough to print."""
    return number.bit_length() <= _MAX_PRINTED_BITS


def describe_value(value: object) -> str:
    """Return a short description of a value for a reason."""
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_CHARACTERS else value[:_MAX_CHARACTERS] + "…")
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return str(value) if is_printable_integer(value) else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    names: dict[type, str] = {dict: "an object", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")
