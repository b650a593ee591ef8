"""Stored documents, and the range of feed keys that is company filter and cursor in one."""

import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.fields import STORED_PATTERN, is_identifier
from mappings.stored_document import (
    RECORD_DELIMITER,
    RECORD_KEY,
    encode_document,
    feed_key,
    feed_key_range,
    is_move,
    move_id,
    replace_stamp,
    split_document_id,
)

COMPANIES = st.text("-_059AZaz", min_size=1, max_size=4)  # few letters, so that one key often begins another
IDENTIFIERS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
# What looks like the marks or the stamp of a document, whole or in part.
HOSTILE = [
    *('\t"record":\t', "\\\t", '"}\t', "\x00", "clock", "sequence", "record", '"clock":1', ',"clock":1,"sequence":2'),
    *('x","clock":1,"sequence":2,"record":\t{}\t}', '","clock":1,"sequence":2}', ',"clock":1,"sequence":2,"record":'),
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(HOSTILE)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)

RECORDS = st.dictionaries(TEXTS, VALUES, max_size=4)
# Any search fields but the stamp, one at least.
SEARCHES = st.dictionaries(
    TEXTS.filter(lambda name: name not in {"clock", "sequence", "changed", "record"}), VALUES, min_size=1
)
PENDING = st.integers(2**62, 2**63 - 1)
STAMPS = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**48 - 1) | PENDING)


def encoded(search: dict[str, Any], stamp: tuple[int, int], record: dict[str, Any] | None) -> bytes:
    return encode_document(orjson.dumps(search)[:-1], *stamp, None if record is None else orjson.dumps(record))


def is_in_range(key: str, bounds: dict[str, str]) -> bool:
    """Compare as Elasticsearch does: by the bytes of UTF-8."""
    return bounds["gt"].encode() < key.encode() < bounds["lt"].encode()


@given(COMPANIES, IDENTIFIERS, st.just("") | IDENTIFIERS)
def test_a_range_holds_the_identifiers_behind_the_cursor(company: str, identifier: str, cursor: str) -> None:
    behind = identifier.encode() > cursor.encode()
    assert is_in_range(feed_key(company, identifier), feed_key_range(company, cursor)) is behind


@given(COMPANIES, IDENTIFIERS.filter(lambda name: "/" not in name))
def test_the_id_of_a_departure_is_that_of_no_record_and_is_split_as_it_was_joined(company: str, name: str) -> None:
    joined_id = move_id(company, name)
    assert split_document_id(joined_id) == (company, name)
    assert split_document_id(name) == ("", name)
    assert (is_move(joined_id), is_move(name)) == (True, False)
    assert re.match(STORED_PATTERN, joined_id) is None
    assert not is_identifier(joined_id)


@given(COMPANIES, COMPANIES, IDENTIFIERS, st.just("") | IDENTIFIERS)
def test_a_range_never_holds_another_company(company: str, other: str, identifier: str, cursor: str) -> None:
    if other != company:
        assert not is_in_range(feed_key(other, identifier), feed_key_range(company, cursor))


@given(st.lists(IDENTIFIERS, min_size=2, unique=True), COMPANIES)
def test_feed_keys_sort_as_their_identifiers(identifiers: list[str], company: str) -> None:
    by_identifier = sorted(identifiers, key=str.encode)
    assert sorted(identifiers, key=lambda identifier: feed_key(company, identifier).encode()) == by_identifier


@given(COMPANIES, COMPANIES, IDENTIFIERS)
def test_the_ranges_of_a_company_and_of_one_that_begins_with_its_key_are_apart(
    company: str, rest: str, identifier: str
) -> None:
    longer = company + rest
    assert is_in_range(feed_key(longer, identifier), feed_key_range(longer))
    assert not is_in_range(feed_key(longer, identifier), feed_key_range(company))
    assert not is_in_range(feed_key(company, identifier), feed_key_range(longer))


@given(SEARCHES, STAMPS, RECORDS | st.none())
def test_a_document_is_read_back_as_what_was_joined(
    search: dict[str, Any], stamp: tuple[int, int], record: dict[str, Any] | None
) -> None:
    clock, sequence = stamp
    rest = {} if record is None else {"record": record}
    expected = search | {"clock": clock, "sequence": sequence, "changed": [sequence if sequence < 2**40 else 0]} | rest
    source = encoded(search, stamp, record)
    assert orjson.loads(source) == expected
    assert list(orjson.loads(source)) == list(expected)


@given(SEARCHES, st.tuples(st.just(0), PENDING), STAMPS, RECORDS | st.none())
def test_another_stamp_gives_the_document_that_would_have_been_joined_with_it(
    search: dict[str, Any], first: tuple[int, int], second: tuple[int, int], record: dict[str, Any] | None
) -> None:
    assert replace_stamp(encoded(search, first, record), *second) == encoded(search, second, record)


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"{}",
        b'{"id":"1"}',
        b'{"clock":1,"sequence":2}',  # without any search field before it
        b'{"id":"1","clock":1,"sequence":2,"version":3}',
        b'{"id":"1","clock":1,"sequence":2,"version":3,"record":\t{}\t}',
        b'{"id":"1","sequence":2,"clock":1,"record":\t{}\t}',
        b'{"id":"1","clock":1.5,"sequence":2,"record":\t{}\t}',
        b'{"id":"1","record":\t{"a":1,"clock":1,"sequence":2,"record":\t{}\t}\t}',
        b'{"id":"1","record":\t{"a":1,"clock":1,"sequence":2}',
        b'{"id":"1","clock":1,"sequence":2,"record":{}}',  # without marks
        b'{"id":"1","inner":{"a":1,"clock":1,"sequence":2}}',
        b'{"id":"\\",\\"clock\\":1,\\"sequence\\":2}"}',
    ],
)
def test_a_document_without_a_stamp_in_its_place_is_not_restamped(source: bytes) -> None:
    with pytest.raises(ValueError, match="no timestamp"):
        replace_stamp(source, 3, 4)


@given(SEARCHES, RECORDS)
def test_a_record_is_exactly_what_lies_between_the_two_marks(search: dict[str, Any], record: dict[str, Any]) -> None:
    source = encoded(search, (1, 2), record)
    before, written, after = source.split(RECORD_DELIMITER)
    assert before.endswith(RECORD_KEY)
    assert written == orjson.dumps(record)
    assert after == b"}"


@given(TEXTS)
def test_a_document_is_one_line(text: str) -> None:
    assert b"\n" not in encoded({"id": text}, (1, 2), {"text": text})
