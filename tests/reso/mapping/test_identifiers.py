"""Identifiers of keys: always one that our types take, never the same for two."""

from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from indexer.errors import InvalidRecordError
from indexer.reso.mapping.fields import IdentifierFactory, key_text
from indexer.reso.mapping.record_mapper import RecordMapper
from mappings.fields import is_identifier
from tests.reso.mapping.record_source import DICTIONARY, InMemoryRecords

UPPER = "0B0E6D3C-5F0D-4F35-9D3C-111111111111"
KEY_TEXTS = st.text(st.sampled_from("a %/250F\x00\ud800") | st.characters(codec=None), min_size=1, max_size=45)


@pytest.mark.parametrize(
    ("key", "identifier"),
    [
        *(("k", "k"), ("A-b_1:2.3", "A-b_1:2.3"), ("ä€", "ä€"), ("a b/c", "a%20b%2Fc"), ("50%20", "50%2520")),
        *(("\x00\x7f\n", "%00%7F%0A"), ("\ud800", "%ED%A0%80"), ("k" * 128, "k" * 128)),
    ],
)
def test_identifiers_of_keys(key: str, identifier: str) -> None:
    assert IdentifierFactory().plain(key) == identifier


def test_a_prefix_stands_before_the_key() -> None:
    assert IdentifierFactory("mls one-").plain("k/1") == "mls%20one-k%2F1"


@pytest.mark.parametrize(("key", "length"), [("k" * 129, 129), (" " * 43, 129), ("", 0)])
def test_identifiers_that_would_be_too_long_or_empty_are_refused(key: str, length: int) -> None:
    with pytest.raises(InvalidRecordError, match=f"as an identifier it has {length} characters, not 1 to 128"):
        IdentifierFactory().plain(key)


def test_a_uuid_stays_itself_in_lower_case() -> None:
    assert IdentifierFactory().uuid(UPPER) == IdentifierFactory().uuid(UPPER.lower()) == UPPER.lower()


@pytest.mark.parametrize("key", ["k", UPPER[:-1], f"{{{UPPER}}}", UPPER.replace("-", ""), "\ud800", "a" * 500])
def test_other_keys_are_made_into_a_uuid(key: str) -> None:
    made = IdentifierFactory().uuid(key)
    assert (UUID(made).version, str(UUID(made))) == (5, made)
    assert made == IdentifierFactory().uuid(key) != IdentifierFactory("a").uuid(key) != IdentifierFactory("b").uuid(key)


def test_a_uuid_of_one_of_several_sources_is_made_into_another() -> None:
    assert UUID(IdentifierFactory("a").uuid(UPPER)).version == 5


def test_the_uuids_of_a_key_do_not_change_from_release_to_release() -> None:
    assert IdentifierFactory().uuid("k") == "fa5be1f9-3e5e-50f3-8ebb-b08b31494376"
    assert IdentifierFactory("mls:").uuid("k") == "ff46be84-a48c-5a0a-8dc0-d335aec21ea6"


@given(KEY_TEXTS, KEY_TEXTS, st.sampled_from(["", "mls:", "/ %"]))
def test_identifiers_are_accepted_and_differ_where_keys_do(one: str, other: str, prefix: str) -> None:
    assume(one != other)
    identifiers = IdentifierFactory(prefix)
    try:
        made = identifiers.plain(one), identifiers.plain(other)
    except InvalidRecordError:
        return
    assert made[0] != made[1]
    assert is_identifier(made[0])
    made[0].encode()


@pytest.mark.parametrize(
    ("value", "key"),
    [
        *((7, "7"), ("7", "7"), (" k ", " k "), ("***", None), ("", None), (" ", None), (None, None)),
        *((True, None), (1.5, None), ({}, None), (2**70, None)),
    ],
)
def test_keys_of_records(value: object, key: str | None) -> None:
    assert key_text(value) == key


def test_agents_and_teams_are_known_by_uuids_all_others_by_their_keys() -> None:
    composer = RecordMapper(DICTIONARY, InMemoryRecords(), prefix="p-")
    uuids = IdentifierFactory("p-")
    assert composer.identifier("agents", "k") == composer.identifier("teams", "k") == uuids.uuid("k")
    assert {composer.identifier(alias, "k") for alias in ("listings", "sold_listings", "offices")} == {"p-k"}


@pytest.mark.parametrize(("alias", "field"), [("listings", "ListingKey"), ("offices", "OfficeKey")])
def test_a_key_without_an_identifier_is_a_fault_of_its_field(alias: str, field: str) -> None:
    with pytest.raises(InvalidRecordError) as fault:
        RecordMapper(DICTIONARY, InMemoryRecords()).identifier(alias, "k" * 200)
    assert fault.value.field == field
