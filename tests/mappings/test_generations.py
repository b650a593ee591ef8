"""Generation names: what is written is read back, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings import RESOURCES
from mappings.indices import Generation, parse_generation

GENERATIONS = st.builds(
    Generation, st.from_regex(r"[a-z][a-z0-9_-]{0,30}", fullmatch=True), st.integers(min_value=0, max_value=10**9)
)


@given(GENERATIONS)
def test_a_name_is_read_back_as_the_generation_that_wrote_it(generation: Generation) -> None:
    assert parse_generation(str(generation)) == generation


@given(st.text(max_size=30))
def test_a_parsed_name_round_trips(index: str) -> None:
    generation = parse_generation(index)
    assert generation is None or str(generation) == index


def test_numbers_have_four_digits_and_more_when_needed() -> None:
    assert str(Generation("sold_listings", 7)) == "sold_listings-v0007"
    assert str(Generation("listings", 12345)) == "listings-v12345"


def test_generations_sort_by_number_not_by_spelling() -> None:
    assert max(Generation("agents", 10_000), Generation("agents", 9_999)).number == 10_000


@pytest.mark.parametrize(
    "index",
    [
        "",
        "listings",
        "listings-v",
        "listings-7",
        "listings-v007",
        "listings-v00007",
        "listings-v-007",
        "listings-v0007x",
        "listings-v0007\n",
        "-v0007",
        "Listings-v0007",
        ".listings-v0007",
        "7listings-v0007",
        "listings-v000\N{ARABIC-INDIC DIGIT SEVEN}",
    ],
)
def test_a_foreign_name_is_not_a_generation(index: str) -> None:
    assert parse_generation(index) is None


def test_aliases_of_resources_are_unique_and_no_generation_names() -> None:
    aliases = [resource.alias for resource in RESOURCES]
    assert len(set(aliases)) == len(aliases)
    assert [parse_generation(alias) for alias in aliases] == [None] * len(aliases)
