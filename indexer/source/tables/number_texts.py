"""Numbers as people write them: signs of currencies, grouped digits, a decimal comma."""

import math
import re
from collections.abc import Callable, Sequence

from indexer.source.tables.date_texts import cached

_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_INTEGER_DIGITS = 40  # far beyond the accepted range, and cheap to convert
_MAX_CHARACTERS = 400  # of any number; longer texts are not matched
_GROUPED = re.compile(r"[0-9][,.'\u2019 \u00a0\u202f][0-9]{3}\b")
_SIGN = r"[^\w\s+.,'()-]|[A-Z]{3}"
_SYMBOL = re.compile(rf"^[+-]?({_SIGN})\s?[0-9]|[0-9]\s?({_SIGN})$")
# Spaces that typesetters use between groups of digits.
_SPACES = " \u00a0\u202f"


def number_converter(decimal: str, thousands: str, currency: Sequence[str]) -> Callable[[str], int | float]:
    """Return the function that converts a text to a number; its ValueError completes "the text ...".

    Groups must have three digits, since `12,5` with a comma for thousands is more likely a mistake than 125.
    """
    group = f"[{_SPACES}]" if thousands == " " else re.escape(thousands)
    digits = rf"[0-9]+|[0-9]{{1,3}}(?:{group}[0-9]{{3}})+" if thousands else "[0-9]+"
    point = re.escape(decimal)
    is_number = re.compile(rf"[+-]?(?:(?:{digits})(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
    signs = dict.fromkeys(map(ord, _SPACES if thousands == " " else thousands)) | {ord(decimal): "."}
    may_translate = bool(thousands) or decimal != "."

    def number(text: str) -> int | float:
        if len(text) <= _MAX_INTEGER_DIGITS and _INTEGER.fullmatch(text):
            return int(text)
        plain = _without(currency, text) if currency else text
        if not is_number(plain):
            raise ValueError(f"is not a number{_advice(text, thousands, currency)}")
        return _parsed(plain.translate(signs) if may_translate else plain)

    return cached(number)


def _without(currency: Sequence[str], text: str) -> str:
    """Return a text without the sign of a currency before or after it."""
    for sign in currency:
        if text.startswith(sign):
            return text[len(sign) :].lstrip()
        if text.endswith(sign):
            return text[: -len(sign)].rstrip()
        if text[1:].startswith(sign) and text[0] in "+-":
            return text[0] + text[1 + len(sign) :].lstrip()
    return text


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
