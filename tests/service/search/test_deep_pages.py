"""The keys sampled near an offset, and the start position that their counts give."""

from __future__ import annotations

import orjson
import pytest

from service.search.deep_pages import PageStart, nearest_start, sample_keys_near

KEYS = [f"k{number:04}" for number in range(781)]  # one for every 256 records


def counted(*counts: int, total: int = 1_000) -> bytes:
    """Return the response that counts the records before the first key and between each two."""
    buckets = {str(at): {"doc_count": count} for at, count in enumerate(counts)}
    return orjson.dumps({"hits": {"total": {"value": total}}, "aggregations": {"ranks": {"buckets": buckets}}})


@pytest.mark.parametrize("offset", [10_000, 50_000, 99_900])
def test_a_few_marks_are_counted_on_both_sides_of_the_place(offset: int) -> None:
    marks = sample_keys_near(KEYS, offset)
    assert marks == sorted(marks)
    assert 4 <= len(marks) < 16
    assert marks[0] < KEYS[offset // 256] < marks[-1]


def test_near_the_end_there_may_be_no_mark_behind_the_place_and_in_a_small_collection_none_at_all() -> None:
    assert sample_keys_near(KEYS[:40], 256 * 40)[-1] <= KEYS[39]
    assert sample_keys_near([], 10_000) == []


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (99, PageStart(None, 0, 1_000)),
        (100, PageStart("a", 100, 1_000)),
        (149, PageStart("a", 100, 1_000)),
        (150, PageStart("b", 150, 1_000)),
        (400, PageStart("c", 400, 1_000)),
        (5_000, PageStart("c", 400, 1_000)),
    ],
)
def test_the_start_is_the_last_mark_with_no_more_records_in_front_than_the_page(
    offset: int, expected: PageStart
) -> None:
    assert nearest_start(["a", "b", "c"], counted(100, 50, 250), offset) == expected


def test_without_sampled_keys_the_page_starts_at_the_beginning() -> None:
    assert nearest_start([], orjson.dumps({"hits": {"total": {"value": 7}}}), 10_000) == PageStart(None, 0, 7)
