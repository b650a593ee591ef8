"""Copies that records leave in other shards: how long they are kept, and that pruning deletes them."""

from collections.abc import Sequence
from typing import Any

import pytest

from indexer import clock, prunable, prune, status
from indexer.bulk import BulkResult, BulkWrite
from indexer.changes import shard_crossings, stamps, update_writer
from indexer.changes.shard_crossings import Crossing, ShardCrossings
from indexer.changes.update_writer import ShardMove, UpdateWriter
from indexer.changes.write_session import open_write_session
from indexer.scan import StoredDocument
from mappings import COMPANY, TEAM
from mappings.shards import LEFT_QUERY, cut_evenly
from tests.indexer.changes.scope_consumers import COMPANIES, team
from tests.indexer.changes.test_shard_crossings import TEAMS, expected, served
from tests.indexer.conftest import Bench

HOUR = 3_600_000


@pytest.fixture
def shards() -> int:
    """Three, one for each company, whatever the command line says."""
    return 3


@pytest.fixture
async def teams(bench: Bench) -> Bench:
    assert (await bench.build({COMPANY: COMPANIES, TEAM: TEAMS})).exit_code == 0
    return bench


def pass_time(monkeypatch: pytest.MonkeyPatch, milliseconds: int) -> None:
    """Let copies and tombstones age."""
    now = clock.now_milliseconds() + milliseconds
    for module in (shard_crossings, stamps):
        monkeypatch.setattr(module, "now_milliseconds", lambda: now)


async def kept(bench: Bench) -> list[str]:
    """Return the identifiers of the left copies."""
    found = await bench.client.search(index=bench.connection.alias(TEAM), query=LEFT_QUERY, size=100)
    return sorted(hit["_id"] for hit in found["hits"]["hits"])


async def test_left_copies_are_pruned_once_no_reader_needs_them(teams: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy is needed by readers of an earlier mark; the record stays where it is."""
    await teams.update({TEAM: [team("1a", "b", 100), team("2c", "a", 100)]})
    await teams.update({TEAM: [team("1a", "c", 200)]})
    assert await prunable(teams.engine()) == await prune(teams.engine()) == ([], 0, 0)
    assert await kept(teams) == ["1a", "1a", "2c"]
    pass_time(monkeypatch, HOUR + 1000)
    assert await prunable(teams.engine()) == ([], 0, 3)
    assert await prune(teams.engine()) == ([], 0, 3)
    assert await kept(teams) == []
    assert await prune(teams.engine()) == ([], 0, 0)
    now = (await teams.mark(TEAM)).sequence
    assert await served(teams, now) == expected({"1a": "c", "2c": "a"})
    await teams.update({TEAM: [team("1a", "a", 300)]})
    for mark, moved in ((now, {"1a": "c", "2c": "a"}), ((await teams.mark(TEAM)).sequence, {"2c": "a"})):
        assert await served(teams, mark) == expected(moved)
    assert {each.resource: each.shards for each in await status(teams.engine())}["teams"] == 3


async def test_with_a_tombstone_go_the_copies_of_its_record(teams: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that comes again is not compared with what it left."""
    await teams.update({TEAM: [team("1a", "b", 100)]})
    await teams.update({TEAM: [team("1a", "b", 200, None)]})
    pass_time(monkeypatch, 31 * 24 * HOUR)
    # The record and its move.
    assert await prune(teams.engine()) == ([], 2, 1)
    await teams.update({TEAM: [team("1a", "a", 150)]})
    assert await served(teams, (await teams.mark(TEAM)).sequence) == expected()


async def _publish_nothing(_: UpdateWriter) -> bool:
    return False


async def stop_between_the_copies(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, publishes: bool, sends: bool = True
) -> None:
    """Move a record, and stop before the copy that it leaves is marked, or before the new one is written."""

    async def stopped(_: object, writes: Sequence[BulkWrite] = ()) -> BulkResult:
        if writes:
            raise KeyboardInterrupt
        return BulkResult()

    with monkeypatch.context() as watched:
        if sends:
            watched.setattr(update_writer, "write_all", stopped)
        else:
            watched.setattr(ShardMove, "send", stopped)  # called without writes first
        if not publishes:
            watched.setattr(UpdateWriter, "publish", _publish_nothing)
        with pytest.raises(KeyboardInterrupt):
            await bench.update({TEAM: [team("1a", "b", 100)]})
    await bench.client.indices.refresh(index=bench.connection.alias(TEAM))


@pytest.mark.parametrize("sends", [True, False])
async def test_an_update_that_is_stopped_within_a_move_publishes_one_copy(
    teams: Bench, monkeypatch: pytest.MonkeyPatch, *, sends: bool
) -> None:
    """What it has written is published before it ends."""
    before = (await teams.mark(TEAM)).sequence
    await stop_between_the_copies(teams, monkeypatch, publishes=True, sends=sends)
    published = (await teams.mark(TEAM)).sequence
    assert published > before
    assert await served(teams, before) == expected()
    assert await served(teams, published) == expected({"1a": "b"} if sends else {})
    await teams.update({TEAM: [team("1a", "c", 200)]})
    for mark, where in (
        (before, "a"),
        (published, "b" if sends else "a"),
        ((await teams.mark(TEAM)).sequence, "c"),
    ):
        assert await served(teams, mark) == expected({"1a": where}), mark


async def test_a_killed_move_is_kept_for_as_long_as_one_that_ended(
    teams: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is published later than it was stamped: by the next session, which stamps it again."""
    before = (await teams.mark(TEAM)).sequence
    await stop_between_the_copies(teams, monkeypatch, publishes=False)
    assert (await teams.mark(TEAM)).sequence == before
    (stamped,) = [each for each in await _copies(teams, "1a") if each["company"] == "b"]
    async with open_write_session(teams.engine(lock_wait_seconds=60.0), TEAM, lambda _: None) as session:
        await session.publish()
    (again,) = [each for each in await _copies(teams, "1a") if each["company"] == "b"]
    assert again["sequence"] > stamped["sequence"]
    assert again["hidden"] == stamped["hidden"]
    assert await served(teams, before) == expected()
    assert await served(teams, (await teams.mark(TEAM)).sequence) == expected({"1a": "b"})


async def _copies(bench: Bench, identifier: str) -> list[dict[str, Any]]:
    await bench.client.indices.refresh(index=bench.connection.alias(TEAM))
    found = await bench.client.search(index=bench.connection.alias(TEAM), query={"terms": {"_id": [identifier]}})
    return [hit["_source"] for hit in found["hits"]["hits"]]


def test_a_session_remembers_crossings_from_their_publication_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it took from the stamp to the mark."""
    now = 10 * HOUR
    monkeypatch.setattr(shard_crossings, "now_milliseconds", lambda: now)
    crossings = ShardCrossings(cut_evenly(["a:1", "b:1"], 2))
    left = StoredDocument("1", 1, 1, b'{"feed_key":"a:1","clock":1,"sequence":1}')
    crossings.enter(Crossing(5, 1, left, "b:1"))
    crossings.forget()
    assert crossings.enter(Crossing(6, now, left, "b:1"))
    crossings.forget()
    now += HOUR + 1
    crossings.forget()
    assert not crossings.enter(Crossing(7, now, left, "b:1"))
