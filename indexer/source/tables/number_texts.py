"""Numbers as people write them: signs of currencies, grouped digits, a decimal comma."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_INTEGER_DIGITS = 40  # far beyond the accepted range, and cheap to convert
_MAX_CHARACTERS = 400  # of any number; longer texts are not matched
_GROUPED = re.compile(r"[0-9][,.'\u2019 \u00a0\u202f][0-9]{3}\b")
_SIGN = r"[^\w\s+.,'()-]|[A-Z]{3}"
_SYMBOL = re.compile(rf"^[+-]?({_SIGN})\s?[0-9]|[0-9]\s?({_SIGN})$")
# Spaces that typesetters use between groups of digits.
_SPACES = "[ \u00a0\u202f]"


def number_converter(decimal: str, thousands: str, currency: Sequence[str]) -> Callable[[str], int | float]:
    """Return the function that converts a text to a number; its ValueError completes "the text ...".

    Groups must have three digits, since `12,5` with a comma for thousands is more likely a mistake than 125.
    """
    group = _SPACES if thousands == " " else re.escape(thousands)
    digits = rf"[0-9]+|[0-9]{{1,3}}(?:{group}[0-9]{{3}})+" if thousands else "[0-9]+"
    point = re.escape(decimal)
    pattern = re.compile(rf"[+-]?(?:(?:{digits})(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?")
    remove_groups = re.compile(group) if thousands else None
    signs = "|".join(map(re.escape, currency))
    symbols = re.compile(rf"^([+-]?)(?:{signs})\s*|\s*(?:{signs})$")

    def number(text: str) -> int | float:
        if len(text) <= _MAX_INTEGER_DIGITS and _INTEGER.fullmatch(text):
            return int(text)
        plain = symbols.sub(r"\1", text) if currency else text
        if not pattern.fullmatch(plain):
            raise ValueError(f"is not a number{_advice(text, thousands, currency)}")
        plain = (remove_groups.sub("", plain) if remove_groups else plain).replace(decimal, ".")
        return _parsed(plain)

    return number


def _parsed(text: str) -> int | float:
    if len(text) <= _MAX_INTEGER_DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    if not math.isfinite(number := float(text)):
        raise ValueError("is out of range")
    return number


def _advice(text: str, thousands: str, currency: Sequence[str]) -> str:
    """Return what to declare so that the text is a number, if that is clear."""
    found = _SYMBOL.search(text[:_MAX_CHARACTERS])
    symbol = (found[1] or found[2]) if found else None
    if symbol and symbol not in currency:
        return f': if {symbol} is a currency or unit, set currency = "{symbol}"'
    if not thousands and (group := _GROUPED.search(text[:_MAX_CHARACTERS])):
        return f': if {group[0][1]!r} groups digits, set thousands = "{group[0][1]}"'
    return ""
