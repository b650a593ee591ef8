"""A watermark that is brought back from the future after a new life began there."""

from __future__ import annotations

from cluster.control_index import Mark
from indexer.control.lives import StoredIdentities, begin_life
from indexer.maintenance.clock_repair import repaired_mark

NOW = 1_773_480_413_250
AHEAD = NOW + 400 * 24 * 3_600_000
STORED = StoredIdentities("control", "index")


def test_readers_read_everything_once_and_not_until_the_clock_comes_round() -> None:
    begun = begin_life(Mark(clock=AHEAD, sequence=7, epoch=0, generation="g", life="first"), STORED)
    repaired = repaired_mark(begun, NOW)
    assert (repaired.life, repaired.sequence, repaired.clock) == (begun.life, 7, NOW)
    # Clocks of the earlier life, true ones and those from the future, and of the new one before the repair.
    assert [repaired.clock_to_resume(clock) for clock in (NOW - 60_000, AHEAD, begun.clock)] == [0, 0, 0]
    # A watermark is published in whole seconds.
    given = NOW // 1000 * 1000
    assert repaired.clock_to_resume(given) == given
