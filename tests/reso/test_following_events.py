"""Following by events: from a mark before the load, behind a margin, over gaps, and where a sequence begins anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from indexer.errors import SourceError
from tests.reso.mirroring import begin_new_sequence, mirroring, put
from tests.reso.serving import serving
from tests.reso.settings import Fault, Settings
from tests.reso.test_walks import KEYS_OF_TEN, before, ignoring

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_mark_is_taken_before_the_load_and_what_comes_meanwhile_is_followed(tmp_path: Path) -> None:
    async with serving() as server, mirroring(server, tmp_path, event_margin=0) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        mirror.events.mark(await mirror.events.end())
        assert mirror.events.reached == server.events.sequence

        def change() -> None:
            server.patch("Property", "K00", City="Changed behind the walk")
            put(server, "Property", "A", "K02b")
            server.delete("Property", "K01")

        before(server, 3, change)
        await mirror.walks["Property"].load()
        assert not mirror.is_equal()
        assert await mirror.events.follow()
        assert mirror.is_equal()
        assert mirror.events.reached == server.events.sequence


async def test_late_events_within_the_margin_are_acted_upon_once(tmp_path: Path) -> None:
    async with serving() as server, mirroring(server, tmp_path, event_margin=60) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        await mirror.walks["Property"].load()
        mirror.events.mark(await mirror.events.end())
        await mirror.events.follow()
        server.events.hold()
        server.patch("Property", "K03", City="Late")
        late = [*server.events.late]
        server.events._held = False
        put(server, "Property", "in time")
        reached = server.events.sequence
        assert late[0] < reached
        server.events._held = True
        await mirror.events.follow()
        assert (mirror.events.reached, mirror.is_equal()) == (reached, False)
        server.events.release()
        server.ledger.clear()
        await mirror.events.follow()
        assert (mirror.events.reached, mirror.is_equal()) == (reached, True)
        # Of all the events in the margin only the late one is acted upon.
        assert sum(visit.rows for visit in server.ledger.visits if visit.resource == "Property") == 1


@pytest.mark.parametrize("page", [1, 3, 1000])
async def test_gaps_and_compaction_lose_nothing(tmp_path: Path, page: int) -> None:
    settings = Settings(event_gap=50)
    async with serving(settings) as server, mirroring(server, tmp_path, event_margin=0, page_size=page) as mirror:
        mirror.events.mark(await mirror.events.end())
        for number in range(3):
            put(server, "Property", *KEYS_OF_TEN, City=f"Town {number}")
            server.delete("Property", f"K0{number}")
            if number:
                server.compact()
            await mirror.events.follow()
            assert mirror.is_equal()


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.SLOW])
@pytest.mark.parametrize("resource", ["EntityEvent", "Property"])
async def test_a_bad_answer_anywhere_loses_no_event(tmp_path: Path, fault: Fault, resource: str) -> None:
    settings = Settings(retry_after_seconds=0)
    async with serving(settings) as server, mirroring(server, tmp_path, event_margin=7, page_size=4) as mirror:
        mirror.events.mark(await mirror.events.end())
        for request in range(1, 6):
            put(server, "Property", *KEYS_OF_TEN, City=f"Town {request}")
            server.delete("Property", f"K0{request}")
            before(server, request, lambda: server.faults.order(fault, resource=resource), resource)
            assert await mirror.events.follow()
            assert mirror.is_equal()


async def test_a_sequence_that_begins_anew_is_told_until_all_was_compared(tmp_path: Path) -> None:
    async with serving() as server, mirroring(server, tmp_path, event_margin=5) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        await mirror.walks["Property"].load()
        mirror.events.mark(await mirror.events.end())
        assert await mirror.events.follow()
        begin_new_sequence(server)
        server.patch("Property", "K05", City="In the new sequence")
        for _ in range(2):  # as after a kill in between
            assert not await mirror.events.follow()
        mirror.events.begin_anew()
        assert await mirror.events.follow()
        assert mirror.is_equal()
        assert mirror.events.reached == server.events.sequence


async def test_empty_answers_are_no_new_sequence(tmp_path: Path) -> None:
    async with serving() as server, mirroring(server, tmp_path, event_margin=5) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        mirror.events.mark(await mirror.events.end())
        for times in range(1, 9):
            server.faults.order(Fault.EMPTY, times=times, resource="EntityEvent")
            assert await mirror.events.follow(), times
            server.faults = type(server.faults)(server.settings)


async def test_whether_there_are_events_of_an_entity_is_asked_until_there_are(tmp_path: Path) -> None:
    async with serving() as server, mirroring(server, tmp_path) as mirror:
        put(server, "Member", "M")
        assert [await mirror.events.tell_of(name) for name in ("Property", "Member", "Member")] == [False, True, True]
        assert len(mirror.asked("EntityEvent")) == 2
        put(server, "Property", "K")
        assert await mirror.events.tell_of("Property")


@pytest.mark.parametrize("option", ["$filter", "$orderby"])
async def test_a_source_that_ignores_options_of_events_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    async with serving(Settings(event_gap=0)) as server, mirroring(server, tmp_path, event_margin=0) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        await mirror.walks["Property"].load()
        mirror.events.mark(await mirror.events.end())
        held = mirror.held()
        put(server, "Property", "new")
        server.events.hold()
        put(server, "Property", "newer")
        server.events._held = False
        put(server, "Property", "newest")
        server.events.release()  # comes last where nothing is ordered
        ignoring(monkeypatch, option)
        with pytest.raises(SourceError, match="does not heed a filter or an order by EntityEventSequence"):
            await mirror.events.follow()
        assert mirror.held() == held
