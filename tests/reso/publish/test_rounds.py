"""Whole rounds into an index: how what changed is found, and seen by consumers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.client import gather_or_cancel
from indexer.errors import SourceError
from indexer.reso.sync.entity_events import EntityEventFollower
from tests.indexer.conftest import Bench
from tests.reso.expected_index import differences
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.running import serve_in_loop
from tests.reso.sync.open_mirror import put, small_world

# Longer than anything takes that ends at all.
_PATIENCE_SECONDS = 30


async def test_a_change_reaches_consumers_with_all_that_shows_it_and_a_mass_touch_does_not(
    bench: Bench, tmp_path: Path
) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        # One that is inactive counts as deactivated when it was last modified.
        for entity in ("Office", "Member"):
            for key in server.keys(entity):
                server.patch(entity, key, **{f"{entity}Status": "Active"})
        async with into.rounds() as rounds:
            assert (await rounds.run_round()).summary.exit_code == 0
            assert await differences(bench, server) == {}
            before = await into.stamps()
            for entity in ("Property", "Member", "Office", "Teams", "TeamMembers", "Media", "OpenHouse"):
                server.touch(entity)
            await rounds.run_round()
            assert await into.changed(before) == set()
            assert await differences(bench, server) == {}
            first, second, *_ = await into.live()
            photo = {
                "ResourceName": "Property",
                "MediaCategory": "Photo",
                "MediaURL": "https://media.example.com/1.jpg",
            }
            put(server, "Media", "photo", **photo, ResourceRecordKey=first)
            await rounds.run_round()
            before = await into.stamps()
            server.patch("Media", "photo", ResourceRecordKey=second)
            await rounds.run_round()
            moved = {name.split()[1] for name in await into.changed(before)}
            assert moved == {first, second}
            office = server.get("Member", server.keys("Member")[0])["OfficeKey"]  # type: ignore[index]
            server.patch("Office", office, OfficeName="Renamed Realty", OfficeAddress1="7 Other Street")
            before = await into.stamps()
            await rounds.run_round()
            assert {name.split()[0] for name in await into.changed(before)} == {"offices", "agents"}
            assert await differences(bench, server) == {}
            # A round in which nothing changed says nothing and asks for little.
            server.ledger.clear()
            quiet = await rounds.run_round()
            assert (quiet.lines, quiet.summary.resources) == ([], [])
            assert set(server.ledger.requests) == {"EntityEvent"}
            assert len(server.ledger.visits) <= 5


async def test_an_entity_without_events_is_followed_by_times_and_lost_events_are_healed(
    bench: Bench, tmp_path: Path
) -> None:
    async with serve_in_loop(world=small_world()) as server:
        server.events.forget("Media")
        into = ReplicationBench(bench, server, tmp_path)
        async with into.rounds() as rounds:
            await rounds.run_round()
            server.events.is_silent = True
            server.patch("Media", server.keys("Media")[0], MediaURL="https://media.example.com/new.jpg")
            await rounds.run_round()
            assert await differences(bench, server) == {}
            server.patch("Property", server.keys("Property")[0], PublicRemarks="No event")
            server.delete("Property", server.keys("Property")[1])
            server.events.is_silent = False
            await rounds.run_round()
            assert await differences(bench, server) != {}
        await into.round(settings={"reconcile_hours": 0.0})
        assert await differences(bench, server) == {}


async def test_a_change_that_a_source_without_events_shows_late_is_found(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        async with into.rounds(changes="timestamps") as rounds:
            await rounds.run_round()
            early = server.clock.now
            server.clock.advance(60_000)
            newest, late = server.keys("Property")[:2]
            server.patch("Property", newest, City="In time")
            await rounds.run_round()
            await rounds.run_round()  # the next round reads the newest of this one again, and nothing older
            put(server, "Property", late, stamped=early, City="Late", StandardStatus="Active")
            await rounds.run_round()
        assert await differences(bench, server) == {}


@pytest.mark.parametrize("dies", [False, True])
async def test_what_came_between_a_load_by_times_and_the_first_mark_of_events_is_found(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, dies: bool
) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        await into.round(changes="timestamps")
        server.patch("Property", server.keys("Property")[0], PublicRemarks="In between")
        server.delete("Property", server.keys("Property")[1])
        if dies:
            with monkeypatch.context() as patched:
                patched.setattr(EntityEventFollower, "set_start", raise_after(EntityEventFollower.set_start))
                with pytest.raises(KeyboardInterrupt):
                    await into.round()
        await into.round(settings={"event_margin": 0})
        assert await differences(bench, server) == {}


def raise_after(work: Callable[..., None]) -> Callable[..., None]:
    """Return the same work with an end behind it as a kill makes one."""

    def die(*arguments: Any) -> None:
        work(*arguments)
        raise KeyboardInterrupt

    return die


async def test_a_new_event_sequence_is_reported_once_and_all_keys_are_compared(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        async with into.rounds() as rounds:
            await rounds.run_round()
            server.events.restart()
            server.events.is_silent = True
            server.patch("Property", server.keys("Property")[0], PublicRemarks="While there were no events")
            server.delete("Property", server.keys("Property")[1])
            server.events.is_silent = False
            server.patch("Property", server.keys("Property")[2], PublicRemarks="In the new sequence")
            done = await rounds.run_round()
            said = "The source no longer has all events since the last round: comparing all keys."
            assert (done.summary.problems, (await into.status()).complaint) == ([said], said)
            assert await differences(bench, server) == {}
            assert (await rounds.run_round()).summary.problems == []


async def test_where_one_of_several_works_fails_the_others_are_given_up() -> None:
    endless, is_given_up = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        try:
            await endless.wait()
        finally:
            is_given_up.set()

    async def fail() -> None:
        raise SourceError("The source is away.")

    with pytest.raises(SourceError, match="away"):
        await asyncio.wait_for(gather_or_cancel(wait(), fail()), _PATIENCE_SECONDS)
    assert is_given_up.is_set()
