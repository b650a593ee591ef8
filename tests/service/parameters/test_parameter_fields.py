"""What each kind of query parameter accepts and refuses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import ValidationError

from mappings.listing import PROPERTY_TYPES
from service.parameters import Boolean, Choice, Parameter, PropertyTypes, Text, UnixSecond, Uuid, WholeNumber

TEXT, TRUTH, UUID, SECOND, TYPES = Text("t"), Boolean("t"), Uuid("t"), UnixSecond("t"), PropertyTypes("t")
NUMBER, SIGNED = WholeNumber("n", minimum=1, maximum=1_000), WholeNumber("n", minimum=-5, maximum=5)
CHOICE = Choice("c", ("on-market", "off-market", "all"))
A_UUID = "3f0c2b9e-8a51-4a6f-9d3c-1f2e3d4c5b6a"

# What Python's own int() takes and a query string must not say.
NO_NUMBERS = [
    "",
    " ",
    "1_000",
    " 3 ",
    "3 ",
    "+5",
    "\N{ARABIC-INDIC DIGIT THREE}",
    "\N{FULLWIDTH DIGIT THREE}",
    "1.0",
    "1e2",
    "0x1",
    "--1",
    "-",
    "9" * 23,
    "3\n",
    "1\x00",
]


def refusal(parameter: Parameter, text: str) -> str:
    """Return the message with which a parameter must refuse a text."""
    with pytest.raises(ValidationError) as caught:
        parameter.deserialize(text)
    (message,) = caught.value.messages
    return str(message)


@pytest.mark.parametrize("text", ["a", "a b", "x" * 128, "acme:7", "a@b.example", "日本", "'; --", "%00", " "])
def test_a_text_is_taken_as_it_is(text: str) -> None:
    assert TEXT.deserialize(text) == text


@pytest.mark.parametrize("text", ["", "x" * 129, "a\x00b", "a\nb", "a\tb", "a\x7f", "a\r", "\n"])
def test_a_text_is_refused_when_empty_too_long_or_with_control_characters(text: str) -> None:
    assert refusal(TEXT, text) == "must be 1 to 128 characters without control characters."


@pytest.mark.parametrize(("text", "truth"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_a_truth_value_is_taken_in_any_case(text: str, truth: bool) -> None:
    assert TRUTH.deserialize(text) is TRUTH.deserialize(text.upper()) is TRUTH.deserialize(text.title()) is truth


@pytest.mark.parametrize(
    "text", ["", "yes", "no", "on", "t", "y", "2", "-1", "01", " true", "true\n", "null", "\N{ARABIC-INDIC DIGIT ONE}"]
)
def test_other_truth_values_are_refused(text: str) -> None:
    assert refusal(TRUTH, text) == "must be true or false."


@pytest.mark.parametrize("text", [A_UUID, A_UUID.upper(), "3F0c2b9e-8a51-4A6f-9d3c-1f2e3d4c5b6a"])
def test_a_uuid_is_taken_in_any_case_and_read_in_lower_case(text: str) -> None:
    assert UUID.deserialize(text) == A_UUID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "urn:uuid:" + A_UUID,
        "{" + A_UUID + "}",
        A_UUID.replace("-", ""),
        A_UUID[:-1],
        A_UUID + "0",
        A_UUID + "\n",
        " " + A_UUID,
        A_UUID.replace("f", "g"),
        A_UUID.replace("3", "٣"),
        "3f0c2b9e8-a51-4a6f-9d3c-1f2e3d4c5b6a",
    ],
)
def test_another_form_of_a_uuid_is_refused(text: str) -> None:
    assert refusal(UUID, text).startswith("must be a UUID, for example ")


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("1000", 1000), ("007", 7)])
def test_a_whole_number_within_its_bounds_is_taken(text: str, number: int) -> None:
    assert NUMBER.deserialize(text) == number


@given(st.integers(-5, 5))
def test_bounds_are_included_and_may_be_negative(number: int) -> None:
    assert SIGNED.deserialize(str(number)) == number


@pytest.mark.parametrize("text", [*NO_NUMBERS, "0", "-1", "1001", "99999999999"])
def test_a_text_that_is_not_a_number_or_out_of_range_is_refused_with_the_bounds(text: str) -> None:
    assert refusal(NUMBER, text) == "must be a whole number from 1 to 1000."


@given(st.integers(0, 4_102_444_800))
def test_a_moment_is_taken_in_whole_seconds(second: int) -> None:
    assert SECOND.deserialize(str(second)) == second


@pytest.mark.parametrize("text", [*NO_NUMBERS, "-1", "4102444801", "1700000000000", "1700000000.5", "2026-01-01"])
def test_a_moment_in_another_unit_or_form_is_refused_with_the_unit(text: str) -> None:
    assert refusal(SECOND, text) == "must be a Unix time in whole seconds, at most 4102444800."


@pytest.mark.parametrize("text", ["on-market", "off-market", "all"])
def test_a_choice_takes_its_words(text: str) -> None:
    assert CHOICE.deserialize(text) == text


@pytest.mark.parametrize("text", ["", "On-Market", "onmarket", "on-market ", "any"])
def test_a_choice_refuses_other_words_and_names_its_own(text: str) -> None:
    assert refusal(CHOICE, text) == "must be one of: on-market, off-market, all."


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1", [1]),
        ("-1", [-1]),
        ("23,1", [1, 23]),
        ("2,2,2", [2]),
        (",".join(map(str, PROPERTY_TYPES)), sorted(PROPERTY_TYPES)),
    ],
)
def test_property_types_are_taken_each_once(text: str, numbers: list[int]) -> None:
    assert TYPES.deserialize(text) == numbers


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("0", "'0'"),
        ("24", "'24'"),
        ("-2", "'-2'"),
        ("1,24", "'24'"),
        ("1,,2", "''"),
        ("1,", "''"),
        ("", "''"),
        ("1, 2", "' 2'"),
        ("1;2", "'1;2'"),
        ("Condo", "'Condo'"),
        ("\N{ARABIC-INDIC DIGIT ONE}", "'\N{ARABIC-INDIC DIGIT ONE}'"),
        ("1_0", "'1_0'"),
        ("+1", "'+1'"),
        ("9" * 23, repr("9" * 23)),
    ],
)
def test_property_types_outside_the_legend_are_refused_and_named(text: str, named: str) -> None:
    assert (
        refusal(TYPES, text) == f"must be integers from the legend, -1 and 1 to 23, separated by commas; not {named}."
    )


@pytest.mark.parametrize(("count", "is_taken"), [(24, True), (25, False), (4_000, False)])
def test_there_are_no_more_property_types_than_the_legend_has(count: int, is_taken: bool) -> None:
    text = ",".join(["7"] * count)
    if is_taken:
        assert TYPES.deserialize(text) == [7]
    else:
        assert refusal(TYPES, text) == "must be at most 24 integers from the legend."


@given(st.text())
def test_a_property_type_that_is_accepted_is_one_of_the_legend(text: str) -> None:
    try:
        numbers: list[int] = TYPES.deserialize(text)
    except ValidationError:
        return
    assert set(numbers) <= PROPERTY_TYPES.keys()


@pytest.mark.parametrize(
    ("parameter", "default"),
    [(TEXT, None), (UUID, None), (NUMBER, None), (SECOND, None), (TYPES, None), (TRUTH, False), (CHOICE, "on-market")],
)
def test_an_absent_parameter_has_its_default(parameter: Parameter, default: Any) -> None:
    assert parameter.load_default == default
    assert parameter.metadata["description"]
