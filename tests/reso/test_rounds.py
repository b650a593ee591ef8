"""Whole rounds into an index: how what changed is found, and seen by consumers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from indexer.errors import SourceError
from indexer.reso.events import Events
from indexer.reso.replication import together
from tests.reso.expecting import differences
from tests.reso.into import Into
from tests.reso.mirroring import begin_new_sequence, put, small_world, without_events
from tests.reso.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.indexer.conftest import Bench

# Longer than anything takes that ends at all.
_PATIENCE_SECONDS = 30


async def test_a_change_reaches_consumers_with_all_that_shows_it_and_a_mass_touch_does_not(
    bench: Bench, tmp_path: Path
) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        async with into.rounds() as rounds:
            assert (await rounds.round()).summary.exit_code == 0
            assert await differences(bench, server) == {}
            before = await into.stamps()
            for entity in ("Property", "Member", "Office", "Teams", "TeamMembers", "Media", "OpenHouse"):
                server.touch(entity)
            await rounds.round()
            assert await into.changed(before) == set()
            assert await differences(bench, server) == {}
            first, second, *_ = await into.live()
            photo = {
                "ResourceName": "Property",
                "MediaCategory": "Photo",
                "MediaURL": "https://media.example.com/1.jpg",
            }
            put(server, "Media", "photo", **photo, ResourceRecordKey=first)
            await rounds.round()
            before = await into.stamps()
            server.patch("Media", "photo", ResourceRecordKey=second)
            await rounds.round()
            moved = {name.split()[1] for name in await into.changed(before)}
            assert moved == {first, second}
            office = server.get("Member", server.keys("Member")[0])["OfficeKey"]  # type: ignore[index]
            server.patch("Office", office, OfficeName="Renamed Realty", OfficeAddress1="7 Other Street")
            before = await into.stamps()
            await rounds.round()
            assert {name.split()[0] for name in await into.changed(before)} == {"offices", "agents"}
            assert await differences(bench, server) == {}
            # A round in which nothing changed says nothing and asks for little.
            server.ledger.clear()
            quiet = await rounds.round()
            assert (quiet.lines, quiet.summary.resources) == ([], [])
            assert set(server.ledger.requests) == {"EntityEvent"}
            assert len(server.ledger.visits) <= 5


async def test_an_entity_without_events_is_followed_by_times_and_lost_events_are_healed(
    bench: Bench, tmp_path: Path
) -> None:
    async with serving(world=small_world()) as server:
        for sequence in server.keys("EntityEvent"):
            if server.get("EntityEvent", sequence)["ResourceName"] == "Media":  # type: ignore[index]
                server._tables["EntityEvent"].remove(sequence)
        into = Into(bench, server, tmp_path)
        async with into.rounds() as rounds:
            await rounds.round()
            with without_events(server):
                server.patch("Media", server.keys("Media")[0], MediaURL="https://media.example.com/new.jpg")
                await rounds.round()
                assert await differences(bench, server) == {}
                server.patch("Property", server.keys("Property")[0], PublicRemarks="No event")
                server.delete("Property", server.keys("Property")[1])
            await rounds.round()
            assert await differences(bench, server) != {}
        await into.round(settings={"reconcile_hours": 0.0})
        assert await differences(bench, server) == {}


async def test_a_change_that_a_source_without_events_shows_late_is_found(bench: Bench, tmp_path: Path) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        async with into.rounds(changes="timestamps") as rounds:
            await rounds.round()
            early = server.clock.now
            server.clock.advance(60_000)
            newest, late = server.keys("Property")[:2]
            server.patch("Property", newest, City="In time")
            await rounds.round()
            await rounds.round()  # what was newest when it began is asked for again by the next, and nothing before
            put(server, "Property", late, stamped=early, City="Late", StandardStatus="Active")
            await rounds.round()
        assert await differences(bench, server) == {}


@pytest.mark.parametrize("dies", [False, True])
async def test_what_came_between_a_load_by_times_and_the_first_mark_of_events_is_found(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, dies: bool
) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        await into.round(changes="timestamps")
        server.patch("Property", server.keys("Property")[0], PublicRemarks="In between")
        server.delete("Property", server.keys("Property")[1])
        if dies:
            with monkeypatch.context() as patched:
                patched.setattr(Events, "mark", dying_behind(Events.mark))
                with pytest.raises(KeyboardInterrupt):
                    await into.round()
        await into.round(settings={"event_margin": 0})
        assert await differences(bench, server) == {}


def dying_behind(work: Callable[..., None]) -> Callable[..., None]:
    """Return the same work with an end behind it as a kill makes one."""

    def die(*arguments: Any) -> None:
        work(*arguments)
        raise KeyboardInterrupt

    return die


async def test_a_new_sequence_of_events_is_told_once_and_all_keys_are_compared(bench: Bench, tmp_path: Path) -> None:
    async with serving(world=small_world()) as server:
        into = Into(bench, server, tmp_path)
        async with into.rounds() as rounds:
            await rounds.round()
            begin_new_sequence(server)
            with without_events(server):
                server.patch("Property", server.keys("Property")[0], PublicRemarks="While there were no events")
                server.delete("Property", server.keys("Property")[1])
            server.patch("Property", server.keys("Property")[2], PublicRemarks="In the new sequence")
            done = await rounds.round()
            said = "The source has begun a new sequence of events: all keys are compared."
            assert (done.summary.complaints, (await into.standing()).complaint) == ([said], said)
            assert await differences(bench, server) == {}
            assert (await rounds.round()).summary.complaints == []


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
        await asyncio.wait_for(together(wait(), fail()), _PATIENCE_SECONDS)
    assert is_given_up.is_set()
