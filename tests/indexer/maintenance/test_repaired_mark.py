"""A watermark that is brought back from the future, and where readers who were given one continue."""

import pytest
from msgspec import structs

from cluster.control_index import Mark
from indexer.changes.epochs import repaired_mark
from indexer.clock import now_milliseconds
from indexer.control import StoredIdentities, begin_epoch

NOW = 1_773_480_413_250
AHEAD = NOW + 400 * 24 * 3_600_000
STORED = StoredIdentities("control", "index")


def test_readers_read_everything_once_and_not_until_the_clock_comes_round() -> None:
    begun = begin_epoch(Mark(clock=AHEAD, sequence=7, epoch=0, generation="g", epoch_id="first"), STORED)
    repaired = repaired_mark(begun, NOW)
    assert (repaired.epoch_id, repaired.sequence, repaired.clock) == (begun.epoch_id, 7, NOW)
    # Clocks of the earlier epoch, true ones and those from the future, and of the new one before the repair.
    assert [repaired.clock_to_resume(clock) for clock in (NOW - 60_000, AHEAD, begun.clock)] == [0, 0, 0]
    # A watermark is published in whole seconds.
    given = NOW // 1000 * 1000
    assert repaired.clock_to_resume(given) == given


HOUR = 3_600_000
DAY = 24 * HOUR
MARK = Mark(clock=NOW + 5 * HOUR, sequence=7, epoch=0, generation="g", epoch_id="first")


@pytest.mark.parametrize("later", [0, HOUR, 5 * HOUR, 30 * DAY])
def test_a_reader_that_does_not_ask_before_its_time_has_come_continues_from_the_repair(later: int) -> None:
    mark = structs.replace(repaired_mark(MARK, NOW), clock=NOW + later)
    given = (NOW - 1, NOW, NOW + 1, NOW + 3 * HOUR, MARK.clock, MARK.clock + 1)
    assert [mark.clock_to_resume(clock) for clock in given] == [NOW - 1, NOW, NOW, NOW, NOW, MARK.clock + 1]


def test_true_watermarks_of_a_range_of_more_than_a_week_are_believed_once_its_time_has_come() -> None:
    mark = repaired_mark(structs.replace(MARK, clock=AHEAD), NOW)
    assert mark.clock_to_resume(NOW + HOUR) == NOW
    assert structs.replace(mark, clock=NOW + 2 * HOUR).clock_to_resume(NOW + HOUR) == NOW + HOUR


def test_a_void_watermark_reads_everything_after_a_restore() -> None:
    now = now_milliseconds()
    ahead = structs.replace(MARK, clock=now + 5 * HOUR)
    mark = begin_epoch(repaired_mark(ahead, now), StoredIdentities("control", "index", latest_mark=now + HOUR))
    for clock in (mark.clock, mark.clock + DAY):
        later = structs.replace(mark, clock=clock)
        assert [later.clock_to_resume(given) for given in (now, now + 2 * HOUR, ahead.clock)] == [0, 0, 0]
        assert later.clock_to_resume(ahead.clock + 1) == ahead.clock + 1
