"""Records sliced from raw search responses: the same as by parsing, whatever the records contain."""

from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import service.search.responses as search_response
from mappings.stored_document import encode_document
from service.errors import DeadlineExceeded, EngineUnavailable
from service.search.responses import (
    document_source,
    extract_records,
    parse_hits,
    require_complete,
    split_hits,
    total_hits,
)
from tests.service.stand_in import hit
from tests.service.stand_in import search_response as search_body

HOSTILE = [
    "_index",
    "_source",
    "record",
    "\t",
    '"_index":"',
    '\\"_index\\":\\"',
    '"record":\t{',
    "}\t}",
    "\\",
    '"',
    "\x00",
]
TEXTS = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
RECORDS = st.dictionaries(TEXTS, VALUES, max_size=3)


def marked(at: int, record: dict[str, Any]) -> bytes:
    """Return a hit with a delimited record."""
    return hit("listings-v0001", f"L{at}", encode_document(b'{"id":"L%d"' % at, 1, at, orjson.dumps(record)))


def unmarked(at: int, record: dict[str, Any]) -> bytes:
    """Return a hit as something else than the indexer would write it."""
    return hit("listings-v0001", f"L{at}", orjson.dumps({"id": f"L{at}", "record": record}))


def parsed(raw: bytes) -> list[Any]:
    """Return the records of a response by parsing all of it."""
    return [found["_source"]["record"] for found in orjson.loads(raw)["hits"]["hits"]]


def cut(raw: bytes) -> list[Any]:
    """Return the records as they are cut out, of a full page and of one that could have held one more."""
    count = len(parsed(raw))
    full, short = ([orjson.loads(record) for record in extract_records(raw, asked)] for asked in (count, count + 1))
    assert full == short
    return full


@given(st.lists(RECORDS, max_size=4))
def test_cut_records_are_the_parsed_ones(held: list[dict[str, Any]]) -> None:
    raw = search_body([marked(at, record) for at, record in enumerate(held)])
    assert cut(raw) == parsed(raw) == held


@given(st.lists(st.tuples(RECORDS, st.booleans()), max_size=4))
def test_records_are_right_where_only_some_have_marks(held: list[tuple[dict[str, Any], bool]]) -> None:
    raw = search_body([(marked if marks else unmarked)(at, record) for at, (record, marks) in enumerate(held)])
    assert cut(raw) == parsed(raw) == [record for record, _ in held]


def test_marked_records_are_cut_without_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = search_body([marked(at, {"_index": {"_index": "x"}}) for at in range(3)])
    monkeypatch.setattr(search_response, "parse_hits", Mock(side_effect=AssertionError))
    assert extract_records(raw, 3) == extract_records(raw, 4) == [b'{"_index":{"_index":"x"}}'] * 3


TABS_ELSEWHERE = {
    "before the record": b'{"id":\t"L1","record":{"a":1}}',
    "twice before the record": b'{\t"id":\t"L1","record":{"a":1}}',
    "inside a record with marks": b'{"id":"L1","record":\t{"a":\t1}\t}',
    "twice inside a record with marks": b'{"id":"L1","record":\t{"a":\t1,\t"b":2}\t}',
    "inside a record without marks": b'{"id":"L1","record":{"a":\t1}}',
    "twice inside a record without marks": b'{"id":"L1","record":{"a":\t1\t}}',
    "doubled before the record": b'{"id":"L1","record":\t\t{"a":1}\t}',
    "doubled behind the record": b'{"id":"L1","record":\t{"a":1}\t\t}',
    "before the record alone": b'{"id":"L1","record":\t{"a":1}}',
    "behind the record alone": b'{"id":"L1","record":{"a":1}\t}',
    "round a record that is not the last member": b'{"id":"L1","record":\t{"a":1}\t,"more":2}',
}


@pytest.mark.parametrize("place", TABS_ELSEWHERE)
@pytest.mark.parametrize("pattern", ["x", "xx", "xm", "mx", "mxm", "xmx", "xxx"])
def test_a_tab_in_another_place_leads_to_no_wrong_record(place: str, pattern: str) -> None:
    strange = hit("listings-v0001", "L1", TABS_ELSEWHERE[place])
    raw = search_body([strange if kind == "x" else marked(7, {"b": 2}) for kind in pattern])
    assert cut(raw) == parsed(raw)
    assert [found for part in split_hits(raw, 0) for found in parse_hits(part)] == parse_hits(raw)


def test_an_answer_without_hits_has_no_records() -> None:
    assert extract_records(search_body(), 1) == []


def test_a_complete_response_is_accepted_without_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = search_body([marked(1, {})])
    monkeypatch.setattr(search_response, "orjson", Mock(loads=Mock(side_effect=AssertionError)))
    require_complete(raw)


WHOLE = {
    "hits": {"hits": []},
    "_shards": {"failed": 0, "skipped": 1, "successful": 2, "total": 2},
    "terminated_early": False,
    "timed_out": False,
}
SHARDS = {"total": 2, "successful": 2, "failed": 0}
# What is less than whole, by what differs from a whole answer.
LESS: dict[str, dict[str, Any]] = {
    "a shard failed": {"_shards": SHARDS | {"failed": 1}},
    "a shard is not accounted for": {"_shards": SHARDS | {"successful": 1}},
    "no shard was asked": {"_shards": {"total": 0, "successful": 0, "failed": 0}},
    "it says nothing of failures": {"_shards": {"total": 2, "successful": 2}},
    "it says nothing of successes": {"_shards": {"total": 2, "failed": 0}},
    "it says nothing of shards": {"_shards": None},
    "it stopped early": {"terminated_early": True},
    "it has no hits": {"hits": None},
}


def test_an_answer_in_another_order_is_judged_by_its_parts() -> None:
    require_complete(orjson.dumps(WHOLE))
    with pytest.raises(DeadlineExceeded):
        require_complete(orjson.dumps(WHOLE | {"timed_out": True}))


@pytest.mark.parametrize("fault", LESS)
def test_a_response_is_incomplete_with(fault: str) -> None:
    with pytest.raises(EngineUnavailable):
        require_complete(orjson.dumps(WHOLE | LESS[fault]))


@pytest.mark.parametrize("member", sorted(WHOLE.keys() - {"terminated_early"}))
def test_an_answer_without_a_member_is_none(member: str) -> None:
    with pytest.raises(EngineUnavailable):
        require_complete(orjson.dumps({name: value for name, value in WHOLE.items() if name != member}))


@pytest.mark.parametrize("shards", [b'"successful":2', b'"total":0,"successful":0', b'"total":31'])
def test_a_head_in_the_usual_order_that_does_not_add_up_is_refused(shards: bytes) -> None:
    name = shards.partition(b":")[0]
    before = {b'"successful"': b'"successful":3', b'"total"': b'"total":3,"successful":3'}[name]
    with pytest.raises(EngineUnavailable):
        require_complete(search_body([marked(1, {})]).replace(before, shards, 1))


def test_an_answer_that_ends_anywhere_before_its_end_gives_no_records() -> None:
    raw = search_body([marked(at, {"a": {"b": [[], {}]}, "Text": "]}}"}) for at in range(3)])
    taken = []
    for end in range(len(raw)):
        with suppress(EngineUnavailable):
            require_complete(raw[:end])
            taken.append(extract_records(raw[:end], 201))
    assert taken == []


def test_a_document_is_the_requested_one() -> None:
    raw = b'{"_id":"L1","found":true,"_source":{"a":1}}'
    assert document_source(raw, "L1") == {"a": 1}
    for other in (raw.replace(b"L1", b"L2"), raw.replace(b"_source", b"source"), raw[:-1], b"[]", b""):
        with pytest.raises(EngineUnavailable):
            document_source(other, "L1")


def test_an_answer_that_ran_out_of_time_is_refused() -> None:
    with pytest.raises(DeadlineExceeded):
        require_complete(search_body([marked(1, {})], timed_out=True))


@pytest.mark.parametrize("failed", [1, 2, 3])
def test_an_answer_that_lacks_shards_is_refused_with_their_number_for_the_log(failed: int) -> None:
    with pytest.raises(EngineUnavailable) as caught:
        require_complete(search_body([marked(1, {})], failed=failed))
    assert caught.value.reason == f"{3 - failed} of 3 shards responded, {failed} failed."


def test_a_record_cannot_make_a_partial_response_look_complete() -> None:
    whole = '{"took":3,"timed_out":false,"_shards":{"total":3,"successful":3,"skipped":0,"failed":0}'
    with pytest.raises(EngineUnavailable):
        require_complete(search_body([marked(1, {"text": whole})], failed=1))


@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_total_is_the_one_of_the_answer(count: int) -> None:
    assert total_hits(search_body([marked(at, {}) for at in range(count)])) == count


def test_a_total_in_another_spelling_is_parsed() -> None:
    raw = search_body([marked(1, {"text": '"total":{"value":9,"relation":"eq"}'})])
    assert total_hits(raw.replace(b'"relation":"eq"},"max', b'"relation":"eq" },"max')) == 1


def test_hits_are_parsed_in_order() -> None:
    assert [found["_id"] for found in parse_hits(search_body([marked(2, {}), marked(1, {})]))] == ["L2", "L1"]


@given(st.lists(RECORDS, max_size=6), st.integers(0, 600), st.booleans())
def test_parts_of_a_response_have_its_hits_in_order(
    records: list[dict[str, Any]], at_least: int, is_ours: bool
) -> None:
    response = search_body([(marked if is_ours else unmarked)(at, record) for at, record in enumerate(records)])
    parts = [parse_hits(part) for part in split_hits(response, at_least)]
    assert [one for part in parts for one in part] == parse_hits(response)
    if is_ours and not at_least:
        assert [len(part) for part in parts] == ([1] * len(records) or [0])
