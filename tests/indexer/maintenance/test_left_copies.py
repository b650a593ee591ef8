"""Copies that records leave in other shards: how long they are kept, and that pruning deletes them."""

import math
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest

from cluster.control_index import mark_id
from indexer import prunable, prune, status
from indexer.changes.shard_crossings import Crossing, ShardCrossings
from indexer.changes.write_session import open_write_session
from indexer.clock import now_milliseconds
from indexer.scan import StoredDocument
from mappings import COMPANY, TEAM
from mappings.shards import LEFT_QUERY, cut_evenly
from tests.indexer.changes.scope_consumers import COMPANIES, team
from tests.indexer.changes.test_shard_crossings import TEAMS, expected, served
from tests.indexer.client_requests import Killed, before, nothing
from tests.indexer.conftest import Bench
from tests.indexer.shifted_clock import ShiftedTime, shifted_clock

HOUR = 3_600_000


@pytest.fixture
def shards() -> int:
    """Three, one for each company, whatever the command line says."""
    return 3


@pytest.fixture
async def teams(bench: Bench) -> Bench:
    """Three teams of each company, in an installation that does not compare clocks."""
    assert (await bench.build({COMPANY: COMPANIES, TEAM: TEAMS})).exit_code == 0
    return replace(bench, settings=replace(bench.settings, clock_seconds=math.inf))


def after_milliseconds(milliseconds: int) -> AbstractContextManager[ShiftedTime]:
    """Let copies and tombstones age."""
    return shifted_clock(milliseconds / 1000)


async def kept(bench: Bench) -> list[str]:
    """Return the identifiers of the left copies."""
    found = await bench.client.search(index=bench.connection.alias(TEAM), query=LEFT_QUERY, size=100)
    return sorted(hit["_id"] for hit in found["hits"]["hits"])


async def test_left_copies_are_pruned_once_no_reader_needs_them(teams: Bench) -> None:
    """A copy is needed by readers of an earlier mark; the record stays where it is."""
    await teams.update({TEAM: [team("1a", "b", 100), team("2c", "a", 100)]})
    await teams.update({TEAM: [team("1a", "c", 200)]})
    assert await prunable(teams.engine()) == await prune(teams.engine()) == ([], 0, 0)
    assert await kept(teams) == ["1a", "1a", "2c"]
    with after_milliseconds(HOUR + 1000):
        assert await prunable(teams.engine()) == ([], 0, 3)
        assert await prune(teams.engine()) == ([], 0, 3)
        assert await kept(teams) == []
        assert await prune(teams.engine()) == ([], 0, 0)
        now = (await teams.mark(TEAM)).sequence
        assert await served(teams, now) == expected({"1a": "c", "2c": "a"})
        await teams.update({TEAM: [team("1a", "a", 300)]})
    for mark, moved in ((now, {"1a": "c", "2c": "a"}), ((await teams.mark(TEAM)).sequence, {"2c": "a"})):
        assert await served(teams, mark) == expected(moved)
    assert {state.resource: state.shards for state in await status(teams.engine())}["teams"] == 3


async def test_with_a_tombstone_go_the_copies_of_its_record(teams: Bench) -> None:
    """A record that comes again is not compared with what it left."""
    await teams.update({TEAM: [team("1a", "b", 100)]})
    await teams.update({TEAM: [team("1a", "b", 200, None)]})
    with after_milliseconds(31 * 24 * HOUR):
        # The record and its move.
        assert await prune(teams.engine()) == ([], 2, 1)
        await teams.update({TEAM: [team("1a", "a", 150)]})
    assert await served(teams, (await teams.mark(TEAM)).sequence) == expected()


async def stop_before_bulk(bench: Bench, number: int, *, publishes: bool = True) -> None:
    """Move a record: its move, the new copy and the mark of the left one are three requests, one of which is not sent.

    A run that is stopped publishes what it has written, unless it cannot.
    """
    is_stopped = False

    def stop() -> None:
        nonlocal is_stopped
        is_stopped = True
        raise Killed

    def hinder() -> None:
        if is_stopped and not publishes:
            raise Killed

    with (
        before(bench.client, "POST /_bulk", *[nothing] * (number - 1), stop),
        before(bench.client, f"PUT /_doc/{mark_id(bench.connection.alias(TEAM))}", *[hinder] * 9),
        pytest.raises(Killed),
    ):
        await bench.update({TEAM: [team("1a", "b", 100)]})
    await bench.client.indices.refresh(index=bench.connection.alias(TEAM))


@pytest.mark.parametrize(("number", "where"), [(2, "a"), (3, "b")])
async def test_an_update_that_is_stopped_within_a_move_publishes_one_copy(
    teams: Bench, number: int, where: str
) -> None:
    """What it has written is published before it ends."""
    earlier = (await teams.mark(TEAM)).sequence
    await stop_before_bulk(teams, number)
    published = (await teams.mark(TEAM)).sequence
    assert published > earlier
    assert await served(teams, earlier) == expected()
    assert await served(teams, published) == expected({"1a": where})
    await teams.update({TEAM: [team("1a", "c", 200)]})
    for mark, company in ((earlier, "a"), (published, where), ((await teams.mark(TEAM)).sequence, "c")):
        assert await served(teams, mark) == expected({"1a": company}), mark


async def test_a_killed_move_is_kept_for_as_long_as_one_that_ended(teams: Bench) -> None:
    """Its record is published later than it was stamped: by the next session, which stamps it again."""
    earlier = (await teams.mark(TEAM)).sequence
    await stop_before_bulk(teams, 3, publishes=False)
    assert (await teams.mark(TEAM)).sequence == earlier
    (stamped,) = [copy for copy in await _copies(teams, "1a") if copy["company"] == "b"]
    async with open_write_session(teams.engine(lock_wait_seconds=60.0), TEAM, lambda _: None) as session:
        await session.publish()
    (again,) = [copy for copy in await _copies(teams, "1a") if copy["company"] == "b"]
    assert again["sequence"] > stamped["sequence"]
    assert again["hidden"] == stamped["hidden"]
    assert await served(teams, earlier) == expected()
    assert await served(teams, (await teams.mark(TEAM)).sequence) == expected({"1a": "b"})


async def _copies(bench: Bench, identifier: str) -> list[dict[str, Any]]:
    await bench.client.indices.refresh(index=bench.connection.alias(TEAM))
    found = await bench.client.search(index=bench.connection.alias(TEAM), query={"terms": {"_id": [identifier]}})
    return [hit["_source"] for hit in found["hits"]["hits"]]


def test_a_session_remembers_crossings_from_their_publication_on() -> None:
    """However long it took from the stamp to the mark."""
    with shifted_clock(0.0) as time:
        crossings = ShardCrossings(cut_evenly(["a:1", "b:1"], 2))
        left = StoredDocument("1", 1, 1, b'{"feed_key":"a:1","clock":1,"sequence":1}')
        crossings.enter(Crossing(5, 1, left, "b:1"))
        crossings.forget()
        assert crossings.enter(Crossing(6, now_milliseconds(), left, "b:1"))
        crossings.forget()
        time.ahead += HOUR / 1000 + 1
        crossings.forget()
        assert not crossings.enter(Crossing(7, now_milliseconds(), left, "b:1"))
