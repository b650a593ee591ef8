"""An indexer whose clock is wrong writes nothing, and says what to do."""

import math
from unittest.mock import patch

import pytest

from indexer import ClockError, prune, rollback
from indexer.changes.write_session import open_write_session
from indexer.clock import is_ahead, milliseconds_ahead
from mappings import COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.indexer.dated_teams import start, team
from tests.indexer.parsed_lines import parse_line
from tests.indexer.shifted_clock import YEAR_AND_MORE, FrozenTime, shifted_clock
from tests.records import envelope


@pytest.mark.parametrize(
    ("clocks", "ahead"),
    [
        ([1_000], 0),
        ([900], 100),
        ([1_300], -200),
        ([1_050, 9_000_000, 1_020], 0),
        ([900, 800, 9_000_000], 100),
    ],
)
def test_this_host_is_compared_with_most_nodes_and_the_request_does_not_count(clocks: list[int], ahead: int) -> None:
    assert milliseconds_ahead(clocks, 1_000, 1_100) == ahead


@pytest.mark.parametrize(("ahead", "expected"), [(-5_000, False), (61_001, False), (122_000, False), (122_001, True)])
def test_a_watermark_is_ahead_by_more_than_two_clocks_may_differ(ahead: int, expected: bool) -> None:
    with patch("indexer.clock.time", FrozenTime(1_773_480_413)):
        assert is_ahead(1_773_480_413_000 + ahead, 60.0) is expected


@pytest.mark.parametrize(
    ("ahead", "said"), [(YEAR_AND_MORE, "s ahead of"), (-300.0, "s behind"), (-YEAR_AND_MORE, "s behind")]
)
async def test_nothing_is_built_or_updated_under_a_wrong_clock(bench: Bench, ahead: float, said: str) -> None:
    with shifted_clock(ahead), pytest.raises(ClockError, match=said):
        await bench.build({COMPANY: [envelope(COMPANY)]})
    assert await bench.indices() == []
    await start(bench, team("first", 0))
    before, mark = await bench.served(TEAM), await bench.mark(TEAM)
    with shifted_clock(ahead), pytest.raises(ClockError, match="BROKERAGE_CLOCK_SECONDS"):
        await bench.update({TEAM: [team("second", 1)]})
    with shifted_clock(ahead), pytest.raises(ClockError, match=said):
        await bench.build({TEAM: [team("second", 1)]})
    assert (await bench.served(TEAM), await bench.mark(TEAM)) == (before, mark)
    await bench.update({TEAM: [team("second", 1)]})


async def test_tombstones_are_not_purged_under_a_wrong_clock(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await bench.build({TEAM: []}, force=True)
    with shifted_clock(YEAR_AND_MORE), pytest.raises(ClockError):
        await prune(bench.engine())
    with shifted_clock(YEAR_AND_MORE), pytest.raises(ClockError):
        await rollback(bench.engine(), TEAM)
    assert (await bench.served(TEAM))["t"]["deleted"] is True


async def test_the_bound_is_a_setting(bench: Bench) -> None:
    with shifted_clock(300.0):
        await bench.build({COMPANY: [envelope(COMPANY)]}, clock_seconds=math.inf)
    assert await bench.indices() == ["companies-v0001"]


async def test_a_clock_that_is_set_during_a_session_is_found_before_the_next_write_and_before_the_mark(
    bench: Bench,
) -> None:
    await start(bench, team("first", 0))
    writer = bench.writer()
    await writer.apply({"t": parse_line(TEAM, team("second", 1))})
    mark = await bench.mark(TEAM)
    with shifted_clock(YEAR_AND_MORE):
        with pytest.raises(ClockError):
            await writer.apply({"t": parse_line(TEAM, team("third", 2))})
        with pytest.raises(ClockError):
            await writer.publish()
    assert await bench.mark(TEAM) == mark
    await writer.publish()
    await writer.release()
    assert (await bench.mark(TEAM)).clock < mark.clock + 3_600_000
    assert (await bench.served(TEAM))["t"]["record"]["name"] == "second"


async def test_a_clock_that_is_set_during_a_session_gives_neither_stamps_nor_marks(bench: Bench) -> None:
    await start(bench, team("first", 0))
    async with open_write_session(bench.engine(), TEAM, print) as session:
        stamps, first = session.stamps, session.stamps.next_stamp()
        with shifted_clock(YEAR_AND_MORE):
            for give in (stamps.next_stamp, session.clock.latest_mark, lambda: stamps.next_mark(session.live, "uuid")):
                with pytest.raises(ClockError, match="s ahead of"):
                    give()
        assert first < stamps.next_stamp() < (first[0] + 3_600_000, 0)
