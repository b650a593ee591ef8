"""The keys sampled near an offset, and the start position that their counts give."""

from typing import Any

import orjson
import pytest

from mappings import AGENT
from service.scope import Scope
from service.search.pages import PageStart, deep_page_body, nearest_start, sample_near
from service.search.query import Selection


def counted(*counts: int, total: int = 1_000) -> bytes:
    """Return the response that counts the records before the first key and between each two."""
    before, *gaps = counts
    ranks = {"buckets": {str(at): {"doc_count": count} for at, count in enumerate(gaps)}}
    aggregations = {"before": {"doc_count": before}, **({"near": {"ranks": ranks}} if gaps else {})}
    return orjson.dumps({"hits": {"total": {"value": total}}, "aggregations": aggregations})


@pytest.mark.parametrize("offset", [10_000, 50_000, 99_900])
def test_keys_are_sampled_on_both_sides_of_the_place(offset: int) -> None:
    near = sample_near(offset)
    assert 0 < near.start < offset // 256 < near.stop - 1
    assert len(near) < 150


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (99, PageStart(None, 0, 1_000, (("a", 100), ("b", 150), ("c", 400)))),
        (100, PageStart("a", 100, 1_000, (("b", 150), ("c", 400)))),
        (149, PageStart("a", 100, 1_000, (("b", 150), ("c", 400)))),
        (150, PageStart("b", 150, 1_000, (("c", 400),))),
        (400, PageStart("c", 400, 1_000)),
        (5_000, PageStart("c", 400, 1_000)),
    ],
)
def test_the_start_is_the_last_mark_with_no_more_records_in_front_than_the_page(
    offset: int, expected: PageStart
) -> None:
    assert nearest_start(["a", "b", "c"], counted(100, 50, 250), offset) == expected


def test_a_single_mark_has_only_the_records_in_front_of_it() -> None:
    assert nearest_start(["a"], counted(100), 120) == PageStart("a", 100, 1_000)


def test_without_sampled_keys_the_page_starts_at_the_beginning() -> None:
    assert nearest_start([], orjson.dumps({"hits": {"total": {"value": 7}}}), 10_000) == PageStart(None, 0, 7)


@pytest.mark.parametrize(("offset", "end"), [(100, "a"), (101, "b"), (150, "b"), (151, None)])
def test_a_page_ends_before_the_first_mark_that_its_last_record_precedes(offset: int, end: str | None) -> None:
    assert PageStart(None, 0, 1_000, (("a", 100), ("b", 150))).end(offset) == end


def test_a_page_holds_the_record_that_it_starts_from_and_not_the_one_that_it_ends_before() -> None:
    start = PageStart("a", 100, 1_000, (("b", 150),))
    body: Any = deep_page_body(Selection(AGENT, Scope(None)), start, 120, 20, timestamps_only=False)
    *_, between = body["query"]["bool"]["filter"]
    assert between == {"range": {"id": {"gte": "a", "lt": "b"}}}
    assert (body["from"], body["size"], body["track_total_hits"]) == (20, 20, True)
