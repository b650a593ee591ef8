"""Following by events: from a mark before the load, behind a margin, over gaps, and where a sequence restarts."""

from pathlib import Path

import pytest

from indexer.errors import SourceError
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import ServerFault, ServerSettings
from tests.reso.sync.open_mirror import open_mirror, put
from tests.reso.sync.test_entity_sync import KEYS_OF_TEN, change_before_response, ignore_option

pytestmark = pytest.mark.usefixtures("short_delays")


async def test_the_mark_is_taken_before_the_load_and_what_comes_meanwhile_is_followed(tmp_path: Path) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, event_margin=0) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        mirror.events.set_start(await mirror.events.latest_sequence())
        assert mirror.events.last_processed == server.events.sequence

        def change() -> None:
            server.patch("Property", "K00", City="Changed behind the walk")
            put(server, "Property", "A", "K02b")
            server.delete("Property", "K01")

        change_before_response(server, 3, change)
        await mirror.walks["Property"].load()
        assert not mirror.is_equal()
        assert await mirror.events.follow()
        assert mirror.is_equal()
        assert mirror.events.last_processed == server.events.sequence


async def test_late_events_within_the_margin_are_acted_upon_once(tmp_path: Path) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, event_margin=60) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        await mirror.walks["Property"].load()
        mirror.events.set_start(await mirror.events.latest_sequence())
        await mirror.events.follow()
        server.events.hold()
        server.patch("Property", "K03", City="Late")
        late = [*server.events.late]
        server.events.hold(is_held=False)
        put(server, "Property", "in time")
        reached = server.events.sequence
        assert late[0] < reached
        server.events.hold()
        await mirror.events.follow()
        assert (mirror.events.last_processed, mirror.is_equal()) == (reached, False)
        server.events.release()
        server.ledger.clear()
        await mirror.events.follow()
        assert (mirror.events.last_processed, mirror.is_equal()) == (reached, True)
        # Of all the events in the margin only the late one is acted upon.
        assert sum(visit.rows for visit in server.ledger.visits if visit.resource == "Property") == 1


@pytest.mark.parametrize("page", [1, 3, 1000])
async def test_gaps_and_compaction_lose_nothing(tmp_path: Path, page: int) -> None:
    settings = ServerSettings(event_gap=50)
    async with (
        serve_in_loop(settings) as server,
        open_mirror(server, tmp_path, event_margin=0, page_size=page) as mirror,
    ):
        mirror.events.set_start(await mirror.events.latest_sequence())
        for number in range(3):
            put(server, "Property", *KEYS_OF_TEN, City=f"Town {number}")
            server.delete("Property", f"K0{number}")
            if number:
                server.events.compact()
            await mirror.events.follow()
            assert mirror.is_equal()


@pytest.mark.parametrize("fault", [fault for fault in ServerFault if fault is not ServerFault.SLOW])
@pytest.mark.parametrize("resource", ["EntityEvent", "Property"])
async def test_a_bad_answer_anywhere_loses_no_event(tmp_path: Path, fault: ServerFault, resource: str) -> None:
    settings = ServerSettings(retry_after_seconds=0)
    async with serve_in_loop(settings) as server, open_mirror(server, tmp_path, event_margin=7, page_size=4) as mirror:
        mirror.events.set_start(await mirror.events.latest_sequence())
        for request in range(1, 6):
            put(server, "Property", *KEYS_OF_TEN, City=f"Town {request}")
            server.delete("Property", f"K0{request}")
            change_before_response(server, request, lambda: server.faults.plan(fault, resource=resource), resource)
            assert await mirror.events.follow()
            assert mirror.is_equal()


async def test_a_restarted_sequence_is_reported_until_everything_is_compared(tmp_path: Path) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, event_margin=5) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        await mirror.walks["Property"].load()
        mirror.events.set_start(await mirror.events.latest_sequence())
        assert await mirror.events.follow()
        server.events.restart()
        server.patch("Property", "K05", City="In the new sequence")
        for _ in range(2):  # as after a kill in between
            assert not await mirror.events.follow()
        mirror.events.restart()
        assert await mirror.events.follow()
        assert mirror.is_equal()
        assert mirror.events.last_processed == server.events.sequence


async def test_empty_responses_do_not_start_a_new_sequence(tmp_path: Path) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, event_margin=5) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        mirror.events.set_start(await mirror.events.latest_sequence())
        for times in range(1, 9):
            server.faults.plan(ServerFault.EMPTY, times=times, resource="EntityEvent")
            assert await mirror.events.follow(), times
            server.faults.clear()


async def test_whether_there_are_events_of_an_entity_is_asked_until_there_are(tmp_path: Path) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path) as mirror:
        put(server, "Member", "M")
        assert [await mirror.events.has_events_of(name) for name in ("Property", "Member", "Member")] == [
            False,
            True,
            True,
        ]
        assert len(mirror.asked("EntityEvent")) == 2
        put(server, "Property", "K")
        assert await mirror.events.has_events_of("Property")


@pytest.mark.parametrize("option", ["$filter", "$orderby"])
async def test_a_source_that_ignores_options_of_events_is_not_followed(tmp_path: Path, option: str) -> None:
    async with (
        serve_in_loop(ServerSettings(event_gap=0)) as server,
        open_mirror(server, tmp_path, event_margin=0) as mirror,
    ):
        put(server, "Property", *KEYS_OF_TEN)
        await mirror.walks["Property"].load()
        mirror.events.set_start(await mirror.events.latest_sequence())
        held = mirror.held()
        put(server, "Property", "new")
        server.events.hold()
        put(server, "Property", "newer")
        server.events.hold(is_held=False)
        put(server, "Property", "newest")
        server.events.release()  # comes last where nothing is ordered
        ignore_option(server, option)
        with pytest.raises(SourceError, match="ignores a filter or an order by EntityEventSequence"):
            await mirror.events.follow()
        assert mirror.held() == held
