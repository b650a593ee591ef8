"""What is raised for a value that cannot be kept, and how a value is shown in a reason."""

from __future__ import annotations

# Characters of a text that a reason repeats.
_LONGEST = 40
# Larger whole numbers are told by their size: writing them out takes time, and beyond 4,300 digits Python refuses to.
_WRITTEN_BITS = 256


class LeftOut(Exception):
    """A value that a field of ours cannot hold; `kept` is what can be had of it, None for nothing."""

    def __init__(self, reason: str, kept: object = None) -> None:
        """Keep the reason, which reads on from the name of a field."""
        super().__init__(reason)
        self.reason = reason
        self.kept = kept


def is_writable(number: int) -> bool:
    """Whether a whole number is written out by its digits."""
    return number.bit_length() <= _WRITTEN_BITS


def shown(value: object) -> str:
    """Return a value as a reason says it, never longer than a few words."""
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return str(value) if is_writable(value) else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    names: dict[type, str] = {dict: "an object", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")
