"""Stored documents, and the range of feed keys that is company filter and cursor in one."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from mappings.document import MARK, RECORD_KEY, document, feed_key, feed_range

COMPANIES = st.text("-_059AZaz", min_size=1, max_size=4)  # few letters, so that one key often begins another
IDENTIFIERS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(['\t"record":\t', "\\\t", '"}\t', "\x00"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def within(key: str, bounds: dict[str, str]) -> bool:
    """Compare as Elasticsearch does: by the bytes of UTF-8."""
    return bounds["gt"].encode() < key.encode() < bounds["lt"].encode()


@given(COMPANIES, IDENTIFIERS, st.just("") | IDENTIFIERS)
def test_a_range_holds_the_identifiers_behind_the_cursor(company: str, identifier: str, cursor: str) -> None:
    behind = identifier.encode() > cursor.encode()
    assert within(feed_key(company, identifier), feed_range(company, cursor)) is behind


@given(COMPANIES, COMPANIES, IDENTIFIERS, st.just("") | IDENTIFIERS)
def test_a_range_never_holds_another_company(company: str, other: str, identifier: str, cursor: str) -> None:
    if other != company:
        assert not within(feed_key(other, identifier), feed_range(company, cursor))


@given(st.lists(IDENTIFIERS, min_size=2, unique=True), COMPANIES)
def test_feed_keys_sort_as_their_identifiers(identifiers: list[str], company: str) -> None:
    by_identifier = sorted(identifiers, key=str.encode)
    assert sorted(identifiers, key=lambda identifier: feed_key(company, identifier).encode()) == by_identifier


@given(COMPANIES, COMPANIES, IDENTIFIERS)
def test_the_ranges_of_a_company_and_of_one_that_begins_with_its_key_are_apart(
    company: str, rest: str, identifier: str
) -> None:
    longer = company + rest
    assert within(feed_key(longer, identifier), feed_range(longer))
    assert not within(feed_key(longer, identifier), feed_range(company))
    assert not within(feed_key(company, identifier), feed_range(longer))


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), st.dictionaries(TEXTS, VALUES, max_size=4))
def test_a_document_is_read_back_as_what_was_joined(search: dict[str, object], record: dict[str, object]) -> None:
    search.pop("record", None)
    source = document({"id": "1", **search}, orjson.dumps(record))
    assert orjson.loads(source) == {"id": "1", **search, "record": record}


@given(st.dictionaries(TEXTS, VALUES, max_size=4), st.dictionaries(TEXTS, VALUES, max_size=4))
def test_a_record_is_exactly_what_lies_between_the_two_marks(
    search: dict[str, object], record: dict[str, object]
) -> None:
    source = document({"id": "1", **search}, orjson.dumps(record))
    before, encoded, after = source.split(MARK)
    assert before.endswith(RECORD_KEY)
    assert encoded == orjson.dumps(record)
    assert after == b"}"


@given(TEXTS)
def test_a_document_is_one_line(text: str) -> None:
    assert b"\n" not in document({"id": text}, orjson.dumps({"text": text}))
