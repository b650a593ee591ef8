"""Reading a filter: whatever the text is, it is read or refused in words."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reso.filter.expression import (
    And,
    ComparisonOperator,
    FieldComparison,
    FilterLiteral,
    InList,
    LiteralType,
    Negation,
    Or,
)
from service.reso.filter.parser import MAX_NESTING_DEPTH, MalformedFilter, parse_filter
from service.reso.protocol import OptionNotImplemented

_WORDS = ("A", "not", "and", "or", "eq", "in", "gt", "null", "true", "'x'", "'", "(", ")", ",", "/", "1", "-1.5e3", ":")
_MORE = ("add", "has", "contains", "any", "2026-01-01", "2026-01-01T00:00:00Z", "@p", "$it", "duration'P1D'", "\t", "☃")


def test_a_filter_is_read_by_the_precedence_of_odata() -> None:
    one = FieldComparison("A", ComparisonOperator.EQ, FilterLiteral(LiteralType.TEXT, "it's"))
    two = FieldComparison("B", ComparisonOperator.LT, FilterLiteral(LiteralType.NUMBER, "-1.5"))
    three = InList("C", (FilterLiteral(LiteralType.NULL, "null"), FilterLiteral(LiteralType.DATE, "2026-01-31")))
    text = "A eq 'it''s' or -1.5 gt B and not (C in (null,2026-01-31))"
    assert parse_filter(text) == Or((one, And((two, Negation(three)))))
    assert parse_filter(f"({text})") == parse_filter(text)


def _read(text: str) -> None:
    """Read a text, or see it refused in a sentence, however long it is."""
    with suppress(MalformedFilter, OptionNotImplemented):
        parse_filter(text)
        return
    with pytest.raises((MalformedFilter, OptionNotImplemented)) as refused:
        parse_filter(text)
    assert len(str(refused.value)) < 200


@given(st.lists(st.sampled_from(_WORDS + _MORE), max_size=60).map(" ".join))
def test_words_in_any_order_are_read_or_refused(text: str) -> None:
    _read(text)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    _read(text)


@pytest.mark.parametrize(
    "piece", [*_WORDS, *_MORE, "not (", "A eq 1 or ", "A eq 1 and (", "a/", "f(", "''", "not not ", " "]
)
def test_sixteen_thousand_characters_of_anything_are_read_or_refused(piece: str) -> None:
    for glue in ("", " "):
        _read((piece + glue) * (16_384 // len(piece + glue)))
        _read("A in (" + (piece + glue) * (16_000 // len(piece + glue)) + ")")


@pytest.mark.parametrize("behind", ["(", "/b", " eq 1 and", " eq 'x", "' eq 1"])
def test_a_name_of_sixteen_thousand_characters_is_not_repeated(behind: str) -> None:
    for name in ("a" * 16_000, "@" + "a" * 16_000, "9" * 16_000):
        _read(name + behind)


def test_levels_are_bounded() -> None:
    def nested(levels: int, opening: str = "(") -> str:
        return opening * levels + "A eq 1" + ")" * opening.count("(") * levels

    for opening in ("(", "not ("):
        parse_filter(nested(MAX_NESTING_DEPTH // 2, opening))
        with pytest.raises(MalformedFilter, match="levels"):
            parse_filter(nested(MAX_NESTING_DEPTH + 1, opening))
