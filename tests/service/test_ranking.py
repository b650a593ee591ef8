"""Marks round a place by number, and which of them a count makes the start; both are pure."""

from __future__ import annotations

import orjson
import pytest

from service.ranking import Start, marks_round, nearest

KEYS = [f"k{number:04}" for number in range(781)]  # one for every 256 records


def counted(*counts: int, total: int = 1_000) -> bytes:
    """Return the engine's answer that counts what lies before the first mark and between each two."""
    buckets = {str(at): {"doc_count": count} for at, count in enumerate(counts)}
    return orjson.dumps({"hits": {"total": {"value": total}}, "aggregations": {"ranks": {"buckets": buckets}}})


@pytest.mark.parametrize("offset", [10_000, 50_000, 99_900])
def test_a_few_marks_are_counted_on_both_sides_of_the_place(offset: int) -> None:
    marks = marks_round(KEYS, offset)
    assert marks == sorted(marks)
    assert 4 <= len(marks) < 16
    assert marks[0] < KEYS[offset // 256] < marks[-1]


def test_near_the_end_there_may_be_no_mark_behind_the_place_and_in_a_small_collection_none_at_all() -> None:
    assert marks_round(KEYS[:40], 256 * 40)[-1] <= KEYS[39]
    assert marks_round([], 10_000) == []


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (99, Start(None, 0, 1_000)),
        (100, Start("a", 100, 1_000)),
        (149, Start("a", 100, 1_000)),
        (150, Start("b", 150, 1_000)),
        (400, Start("c", 400, 1_000)),
        (5_000, Start("c", 400, 1_000)),
    ],
)
def test_the_start_is_the_last_mark_with_no_more_records_in_front_than_the_page(offset: int, expected: Start) -> None:
    assert nearest(["a", "b", "c"], counted(100, 50, 250), offset) == expected


def test_without_marks_the_page_is_asked_for_from_the_beginning() -> None:
    assert nearest([], orjson.dumps({"hits": {"total": {"value": 7}}}), 10_000) == Start(None, 0, 7)
