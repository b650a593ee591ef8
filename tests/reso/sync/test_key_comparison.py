"""What a walk by time cannot see is found by comparing: late changes, and what the source has no more."""

from pathlib import Path

import pytest

from indexer.errors import SourceError
from indexer.reso.sync.entity_sync import EntitySync
from mappings.data_dictionary import load_dictionary
from tests.reso.clock import Clock
from tests.reso.server.error_responses import ODataError
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import ServerFault
from tests.reso.sync.open_mirror import expected_records, loaded_mirror, open_mirror, put, small_world
from tests.reso.sync.test_entity_sync import KEYS_OF_TEN, fail_request

pytestmark = pytest.mark.usefixtures("short_delays")
MANY = tuple(f"K{number:03}" for number in range(60))


async def test_a_change_that_shows_late_is_found_by_looking_back(tmp_path: Path) -> None:
    async with loaded_mirror(tmp_path, world=small_world()) as (server, mirror, walks):
        early = server.clock.now
        server.clock.advance(60_000)
        first, second, *_ = server.keys("Property")
        server.patch("Property", first, City="In time")
        await walks.follow_changes()
        await walks.follow_changes()  # the next begins where the newest change lay when this one began
        put(server, "Property", second, stamped=early, City="Late")
        put(server, "Property", "late and new", stamped=early)
        await walks.follow_changes()
        assert not mirror.is_equal()
        server.ledger.clear()
        await walks.recheck_recent()
        assert mirror.is_equal()
        # Keys and times of all, whole records of these two alone.
        assert [visit.rows for visit in server.ledger.visits if "City" in visit.fields] == [2]


async def test_what_shows_later_than_the_overlap_is_found_by_comparing_all(tmp_path: Path) -> None:
    async with (
        serve_in_loop(world=small_world()) as server,
        open_mirror(server, tmp_path, overlap_seconds=1.0) as mirror,
    ):
        walks = mirror.walks["Property"]
        early = server.clock.now
        server.clock.advance(60_000)
        put(server, "Property", "newest")
        await walks.load()
        await walks.follow_changes()
        put(server, "Property", server.keys("Property")[0], stamped=early, City="Late")
        await walks.follow_changes()
        await walks.recheck_recent()
        assert not mirror.is_equal()
        await walks.compare_keys()
        assert mirror.is_equal()


@pytest.mark.parametrize(
    "fault", [ServerFault.EMPTY, ServerFault.STOPS_SHORT, ServerFault.SHORT_PAGE, ServerFault.BROKEN]
)
async def test_a_bad_answer_anywhere_removes_nothing(tmp_path: Path, fault: ServerFault) -> None:
    """Also where the source takes records away meanwhile and the answer about these is the bad one."""
    async with loaded_mirror(tmp_path, world=small_world(), page_size=4) as (server, mirror, walks):
        for request in range(1, 8):
            gone = server.keys("Property")[0]
            server.delete("Property", gone)
            put(server, "Property", gone.upper())
            fail_request(server, request, fault)
            await walks.compare_keys()
            assert mirror.is_equal()


async def test_a_source_that_answers_nothing_for_a_while_loses_nothing(tmp_path: Path) -> None:
    """Every page without rows, several times over: each known key is requested by its URL before it is removed."""
    async with loaded_mirror(tmp_path, world=small_world()) as (server, mirror, walks):
        server.faults.plan(ServerFault.EMPTY, times=30, resource="Property")
        await walks.compare_keys()
        assert mirror.is_equal()


@pytest.mark.parametrize(("limit", "goes"), [(0.5, 30), (0.5, 31), (0.01, 10), (0.01, 11), (0.0, 10)])
async def test_no_more_goes_than_is_allowed(tmp_path: Path, limit: float, goes: int) -> None:
    async with loaded_mirror(tmp_path, *MANY, removal_limit=limit) as (server, mirror, walks):
        for key in MANY[:goes]:
            server.delete("Property", key)
        server.patch("Property", MANY[-1], City="Changed")
        await walks.compare_keys()
        assert mirror.held()[MANY[-1]]["City"] == "Changed"
        if goes in (30, 10):
            assert (mirror.is_equal(), walks.state.refused) == (True, None)
        else:
            assert mirror.held().keys() == set(MANY)
            assert walks.state.refused == (
                f"Property: the source lacks {goes} of 60 known records, more than the share of {limit} that "
                "BROKERAGE_RESO_REMOVAL_LIMIT allows. None were removed."
            )


async def test_a_refused_comparison_is_remembered_and_made_again_by_the_next_run(tmp_path: Path) -> None:
    async with serve_in_loop() as server:
        put(server, "Property", *MANY)
        async with open_mirror(server, tmp_path, removal_limit=0.1) as mirror:
            await mirror.walks["Property"].load()
            for key in MANY[:30]:
                server.delete("Property", key)
            await mirror.walks["Property"].compare_keys()
            assert not mirror.walks["Property"].is_comparison_due()
        async with open_mirror(server, tmp_path, removal_limit=0.6) as mirror:
            walks = mirror.walks["Property"]
            assert walks.state.refused is not None
            assert walks.is_comparison_due()
            await walks.compare_keys()
            assert mirror.is_equal()
            assert EntitySync(walks.reader).state.refused is None
            assert not walks.is_comparison_due()


async def test_a_comparison_that_was_stopped_is_due_again(tmp_path: Path) -> None:
    async with serve_in_loop() as server:
        put(server, "Property", *KEYS_OF_TEN)
        async with open_mirror(server, tmp_path, retry_seconds=0.01) as mirror:
            walks = mirror.walks["Property"]
            await walks.load()
            server.delete("Property", "K01")
            fail_request(server, 2, ServerFault.BROKEN, times=9)
            with pytest.raises(SourceError):
                await walks.compare_keys()
        server.on_request = None
        server.faults.clear()
        async with open_mirror(server, tmp_path) as mirror:
            assert mirror.walks["Property"].is_comparison_due()
            await mirror.walks["Property"].compare_keys()
            assert mirror.is_equal()


async def test_a_load_that_was_cut_short_is_made_whole_by_the_number_of_records(tmp_path: Path) -> None:
    """Two pages in a row without rows are the end of a walk; that the source counts more is not overlooked."""
    async with serve_in_loop() as server, open_mirror(server, tmp_path) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        walks = mirror.walks["Property"]
        fail_request(server, 3, ServerFault.EMPTY, times=2)
        await walks.load()
        assert len(mirror.held()) == 5
        await walks.compare_if_incomplete()
        assert walks.is_comparison_due()
        await walks.compare_keys()
        assert mirror.is_equal()
        await walks.compare_if_incomplete()
        assert not walks.is_comparison_due()


async def test_what_a_filter_excludes_is_not_read_and_goes_when_it_leaves(tmp_path: Path) -> None:
    dictionary = load_dictionary(b"[Property]\nfilter = \"City eq 'Here' or City eq 'There'\"")
    async with serve_in_loop() as server, open_mirror(server, tmp_path, dictionary) as mirror:
        put(server, "Property", "K1", "K2", "K3", City="Here")
        put(server, "Property", "K4", "K5", City="Elsewhere")
        walks = mirror.walks["Property"]
        await walks.load()
        await walks.compare_if_incomplete()
        assert (set(mirror.held()), walks.is_comparison_due()) == ({"K1", "K2", "K3"}, False)
        server.patch("Property", "K4", City="There")
        server.patch("Property", "K5", PublicRemarks="Still elsewhere")
        server.patch("Property", "K1", City="Elsewhere")
        await walks.follow_changes()
        await walks.recheck_recent()
        assert set(mirror.held()) == {"K1", "K2", "K3", "K4"}
        await walks.compare_keys()
        assert set(mirror.held()) == {"K2", "K3", "K4"}
        # By its key too: it is there, but not for us. One answer without it is not believed.
        server.patch("Property", "K2", City="Elsewhere")
        assert await walks.reader.refresh_keys(["K2", "K3"]) == {"K2"}
        server.faults.plan(ServerFault.EMPTY, times=2, resource="Property")
        assert await walks.reader.refresh_keys(["K3"]) == set()
        asked = [text for text in mirror.asked() if "$select" in text]
        assert all("(City eq 'Here' or City eq 'There')" in text or "=City eq 'Here'" in text for text in asked)


async def test_a_source_without_in_is_asked_with_or(tmp_path: Path) -> None:
    def refuse_in(query: str) -> str:
        if "%20in%20(" in query:
            raise ODataError(400, "40000", "No in here")
        return query

    async with serve_in_loop() as server, open_mirror(server, tmp_path, keys_per_request=4) as mirror:
        server.rewrite = refuse_in
        put(server, "Property", *KEYS_OF_TEN)
        reader = mirror.walks["Property"].reader
        assert await reader.refresh_keys([*KEYS_OF_TEN, "nowhere"]) == {"nowhere"}
        assert mirror.held() == expected_records(server, "Property", reader.select)
        # Refused once and never asked so again: three questions, and one for the key that did not come.
        assert len(mirror.asked()) == 1 + 3 + 1


@pytest.mark.parametrize(
    ("hours", "is_due"), [(0.0, False), (47.99, False), (48.01, True), (-0.01, True), (-1e6, True)]
)
async def test_a_comparison_is_due_again_after_some_hours(
    tmp_path: Path, clock: Clock, hours: float, is_due: bool
) -> None:
    """One in the future was made under a clock that was ahead."""
    async with loaded_mirror(tmp_path, *KEYS_OF_TEN, reconcile_hours=48.0) as (_, _, walks):
        walks.record_comparison(clock.now - hours * 3600)
        assert walks.is_comparison_due() is is_due
        await walks.compare_keys()
        assert not walks.is_comparison_due()
