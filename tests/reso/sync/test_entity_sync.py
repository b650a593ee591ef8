"""Everything by key, then what changed by time and key: nothing is missed; what cannot be walked is reported."""

from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.errors import SourceError
from indexer.reso.sync.page_walks import EntitySyncState
from tests.reso.server.request_log import LoggedRequest
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import ServerFault, ServerSettings
from tests.reso.sync.open_mirror import loaded_mirror, open_mirror, put, small_world
from tests.reso.world.generated_world import FUTURE, KEYS

pytestmark = pytest.mark.usefixtures("short_delays")
KEYS_OF_TEN = tuple(f"K{number:02}" for number in range(10))


def ignore_option(server: ResoServer, option: str, field: str = "") -> None:
    """Let a server ignore a query option, everywhere or where it names a field."""
    server.rewrite = lambda query: "&".join(
        part for part in query.split("&") if not (part.startswith(option) and field in part)
    )


def change_before_response(
    server: ResoServer, request: int, change: Callable[[], object], resource: str = "Property"
) -> None:
    """Change something before a server answers the request of that number for a resource, counted from now."""
    left = [request]

    def on_request(visit: LoggedRequest) -> None:
        if visit.resource == resource:
            left[0] -= 1
            if left[0] == 0:
                change()

    server.on_request = on_request


def fail_request(
    server: ResoServer, request: int, fault: ServerFault, *, times: int = 1, resource: str = "Property"
) -> None:
    """Let something go wrong with the request of that number for a resource, counted from now, and those after it."""
    change_before_response(server, request, lambda: server.faults.plan(fault, times, resource), resource)


async def test_a_load_reads_everything_by_key_and_never_skips(tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world()) as server, open_mirror(server, tmp_path) as mirror:
        for name, walks in mirror.walks.items():
            await walks.load()
            assert mirror.is_equal(name)
        assert not [visit.describe for visit in server.ledger.visits if "$skip" in visit.describe]
        pages = [text for text in mirror.asked() if "$orderby=ListingKey" in text]
        # Three pages of 5, and the end, which is requested twice.
        assert len(pages) == 5
        assert all("$filter=ListingKey gt '" in text for text in pages[1:])


@pytest.mark.parametrize("fault", [fault for fault in ServerFault if fault is not ServerFault.SLOW])
async def test_a_bad_answer_anywhere_loses_nothing_of_a_load(tmp_path: Path, fault: ServerFault) -> None:
    """A fault before each page in turn."""
    settings = ServerSettings(retry_after_seconds=0)
    async with serve_in_loop(settings, small_world()) as server:
        for request in range(1, 6):
            folder = tmp_path / str(request)
            async with open_mirror(server, folder) as mirror:
                fail_request(server, request, fault)
                await mirror.walks["Property"].load()
                assert mirror.is_equal()
                assert server.faults.pending == 0


@pytest.mark.parametrize("fault", [fault for fault in ServerFault if fault is not ServerFault.SLOW])
async def test_a_bad_answer_anywhere_loses_nothing_of_following(tmp_path: Path, fault: ServerFault) -> None:
    """A page that ends too early is continued in the next round, all else in the same."""
    source = ServerSettings(retry_after_seconds=0)
    async with loaded_mirror(tmp_path, source=source, world=small_world()) as (server, mirror, walks):
        for request in range(1, 5):
            for key in server.keys("Property"):
                server.patch("Property", key, City=f"After {request}")
            fail_request(server, request, fault)
            await walks.follow_changes()
            if fault in {ServerFault.EMPTY, ServerFault.STOPS_SHORT}:
                await walks.follow_changes()
                await walks.follow_changes()
            assert mirror.is_equal()


async def test_a_slow_answer_makes_pages_smaller(tmp_path: Path) -> None:
    put_many = [f"K{number:03}" for number in range(220)]
    async with serve_in_loop(ServerSettings(slow_seconds=5.0)) as server:
        put(server, "Property", *put_many)
        async with open_mirror(server, tmp_path, page_size=200, timeout_seconds=0.5) as mirror:
            fail_request(server, 2, ServerFault.SLOW)
            await mirror.walks["Property"].load()
            assert mirror.is_equal()
    wished = [visit.prefer for visit in server.ledger.visits if "orderby=ListingKey" in visit.describe]
    assert (wished[0], wished[1]) == ("odata.maxpagesize=200", "odata.maxpagesize=100")


async def test_what_is_inserted_behind_a_walk_and_deleted_behind_it_is_found(tmp_path: Path) -> None:
    async with serve_in_loop() as server:
        put(server, "Property", *KEYS_OF_TEN)
        async with open_mirror(server, tmp_path) as mirror:
            walks = mirror.walks["Property"]

            def change() -> None:
                put(server, "Property", "A1", "K07b")
                server.delete("Property", "K01")
                server.delete("Property", "K08")

            # The mark, the first page, then this.
            change_before_response(server, 3, change)
            await walks.load()
            assert mirror.held().keys() == {*KEYS_OF_TEN, "K07b"} - {"K08"}
            await walks.follow_changes()
            assert "A1" in mirror.held()
            await walks.compare_keys()
            assert mirror.is_equal()


async def test_a_load_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    async with serve_in_loop() as server:
        put(server, "Property", *KEYS_OF_TEN)
        async with open_mirror(server, tmp_path, retry_seconds=0.01) as mirror:
            fail_request(server, 3, ServerFault.BROKEN, times=9)
            with pytest.raises(SourceError, match="no usable response from the source"):
                await mirror.walks["Property"].load()
        server.faults.clear()
        server.ledger.clear()
        since = mirror.walks["Property"].state.since
        async with open_mirror(server, tmp_path) as mirror:
            assert mirror.held().keys() == set(KEYS_OF_TEN[:5])
            await mirror.walks["Property"].load()
            assert mirror.is_equal()
            # The mark is the one that was taken before the first page.
            assert mirror.walks["Property"].state.since == since
            assert not [text for text in mirror.asked() if " desc" in text]
            assert "ListingKey gt 'K04'" in mirror.asked()[0]


async def test_keys_of_any_characters_are_walked_followed_and_read_one_by_one(tmp_path: Path) -> None:
    async with serve_in_loop(ServerSettings(tick_every=100)) as server:
        put(server, "Property", *KEYS, "a/b", "ends with '", "''", "%2F")
        async with open_mirror(server, tmp_path, page_size=2) as mirror:
            walks = mirror.walks["Property"]
            await walks.load()
            assert mirror.is_equal()
            server.touch("Property")
            await walks.follow_changes()
            assert mirror.is_equal()
            server.touch("Property")
            assert await walks.reader.refresh_keys(sorted(mirror.held())) == set()
            assert mirror.is_equal()
            # By addresses alone, as after an empty answer.
            assert await walks.reader.confirm_missing(sorted(mirror.held())) == set()
            for key in mirror.held():
                server.delete("Property", key)
            assert await walks.reader.refresh_keys(sorted(mirror.held())) == mirror.held().keys()


@pytest.mark.parametrize("compares_text", [False, True])
@pytest.mark.parametrize("shuffles", [False, True])
async def test_records_that_share_a_time_are_all_followed(
    tmp_path: Path, *, compares_text: bool, shuffles: bool
) -> None:
    settings = ServerSettings(compares_text=compares_text, shuffles_ties=shuffles, tick_every=7)
    world = small_world(properties=40)
    async with loaded_mirror(tmp_path, source=settings, world=world, page_size=3) as (server, mirror, walks):
        await walks.follow_changes()
        server.touch("Property")
        for key in server.keys("Property")[:20]:
            server.patch("Property", key, City="Elsewhere")
        server.ledger.clear()
        await walks.follow_changes()
        assert mirror.is_equal()
        # 20 of one time and 20 of three times: each came once, but for a page at the end.
        assert sum(visit.rows for visit in server.ledger.visits) <= 40 + 3


async def test_times_to_come_hide_no_change(tmp_path: Path) -> None:
    async with serve_in_loop(ServerSettings(tick_ms=60_000)) as server:
        put(server, "Property", *KEYS_OF_TEN)
        for key, stamped in zip(KEYS_OF_TEN, FUTURE, strict=False):
            put(server, "Property", key, stamped=stamped)
        async with open_mirror(server, tmp_path, page_size=4) as mirror:
            walks = mirror.walks["Property"]
            await walks.load()
            for number in range(3):
                server.patch("Property", "K09", City=f"Town {number}")
                await walks.follow_changes()
                assert mirror.is_equal()
            # The page that times to come are on is not read again for them, but for the newest change.
            server.ledger.clear()
            await walks.follow_changes()
            assert sum(visit.rows for visit in server.ledger.visits) <= len(FUTURE) + 1


@pytest.mark.parametrize("tick_ms", [1, 60_000])
async def test_a_record_that_changes_again_under_the_same_time_is_read_again(tmp_path: Path, tick_ms: int) -> None:
    """Between any two rounds, and while others have newer times or none has."""
    async with serve_in_loop(ServerSettings(tick_every=4, tick_ms=tick_ms)) as server:
        put(server, "Property", *KEYS_OF_TEN)
        async with open_mirror(server, tmp_path, page_size=3) as mirror:
            await mirror.walks["Property"].load()
        for number in range(9):
            server.patch("Property", KEYS_OF_TEN[-number], City=f"Town {number}")
            server.patch("Property", "K03", City=f"Town {number}")
            for rounds in range(3):
                async with open_mirror(server, tmp_path, page_size=3) as mirror:
                    await mirror.walks["Property"].follow_changes()
                    await mirror.walks["Property"].recheck_recent()
                    assert mirror.is_equal(), (number, rounds)
                server.patch("Property", "K03", City=f"Town {number}.{rounds}")


async def test_a_second_change_under_the_same_time_is_found_though_newer_ones_came_in_the_same_walk(
    tmp_path: Path,
) -> None:
    early, later, latest = (f"2026-03-02T{hour}:00:00.000Z" for hour in (10, 11, 12))
    async with serve_in_loop() as server, open_mirror(server, tmp_path, page_size=1) as mirror:
        walks = mirror.walks["Property"]
        put(server, "Property", "K1", "K2", stamped=early)
        await walks.load()
        await walks.follow_changes()
        put(server, "Property", "K2", stamped=later)

        def change() -> None:
            put(server, "Property", "K2", stamped=later, City="Elsewhere")
            put(server, "Property", "K1", stamped=latest)

        # Behind the page that K2 is on.
        server.ledger.clear()
        change_before_response(server, 3, change)
        await walks.follow_changes()
        assert not mirror.is_equal()
        assert mirror.held()["K1"]["ModificationTimestamp"] == latest
        server.on_request = None
        await walks.follow_changes()
        assert mirror.is_equal()


async def test_machines_that_are_seconds_apart_hide_no_change(tmp_path: Path) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path) as mirror:
        walks = mirror.walks["Property"]
        put(server, "Property", "K1", stamped="2026-03-02T08:00:00.000Z")
        put(server, "Property", "K2", stamped="2026-03-02T08:00:04.000Z")
        await walks.load()
        for town in ("Arden", "Bellmere"):
            for _ in range(3):
                await walks.follow_changes()
            put(server, "Property", "K1", stamped="2026-03-02T08:00:00.000Z", City=town)
            await walks.follow_changes()
            assert mirror.is_equal()


async def test_what_has_settled_is_not_read_again(tmp_path: Path) -> None:
    async with serve_in_loop(ServerSettings(tick_ms=60_000)) as server:
        put(server, "Property", *KEYS_OF_TEN)
        for seconds, again in ((3600.0, 1), (0.0, 0)):
            async with open_mirror(server, tmp_path, overlap_seconds=seconds) as mirror:
                walks = mirror.walks["Property"]
                await walks.load()
                for _ in range(3):
                    await walks.follow_changes()
                server.ledger.clear()
                await walks.follow_changes()
                assert sum(visit.rows for visit in server.ledger.visits) == again


def test_what_is_newest_is_read_again_until_nothing_newer_has_come_for_long() -> None:
    standing, newest = EntitySyncState("2026-03-02T07:50:00.000Z"), ("2026-03-02T08:00:00.000Z", "K1")
    for now in (100.0, 400.0, 699.0):
        standing.place = newest
        standing.finish_pass(now, quiet_seconds=600.0)
        assert standing.place is None
    assert standing.since == "2026-03-02T07:59:55.000Z"
    standing.place = newest
    standing.finish_pass(700.0, quiet_seconds=600.0)
    assert standing.place == newest
    standing.place = "2026-03-02T09:00:00.000Z", "K0"
    standing.finish_pass(800.0, quiet_seconds=600.0)
    assert [standing.place, standing.since] == [None, "2026-03-02T07:59:55.000Z"]


async def test_the_mark_uses_the_records_clock_and_is_read_twice(tmp_path: Path) -> None:
    """An empty answer to the mark must not put it at the present, which this source's clock is months behind."""
    async with serve_in_loop() as server:
        put(server, "Property", *KEYS_OF_TEN)
        server.faults.plan(ServerFault.EMPTY, resource="Property")
        async with open_mirror(server, tmp_path) as mirror:
            walks = mirror.walks["Property"]
            await walks.load()
            assert server.faults.pending == 0
            server.patch("Property", "K03", City="Elsewhere")
            await walks.follow_changes()
            assert mirror.is_equal()


@pytest.mark.parametrize(
    ("option", "field", "said"),
    [("$filter", "", "ignores a filter by ListingKey"), ("$orderby", "", "ignores an order by ListingKey")],
)
async def test_a_source_that_ignores_options_is_not_loaded(tmp_path: Path, option: str, field: str, said: str) -> None:
    async with serve_in_loop(world=small_world()) as server:
        async with open_mirror(server, tmp_path) as mirror:
            await mirror.walks["Property"].load()
            before_it = mirror.held()
        ignore_option(server, option, field)
        async with open_mirror(server, tmp_path) as mirror:
            with pytest.raises(SourceError, match=said):
                await mirror.walks["Property"].compare_keys()
            assert mirror.held() == before_it
        async with open_mirror(server, tmp_path / "new") as mirror:
            with pytest.raises(SourceError, match=said):
                await mirror.walks["Property"].load()


@pytest.mark.parametrize(("option", "page"), [("$filter", 5), ("$orderby", 50)])
async def test_a_source_that_ignores_options_is_not_followed(tmp_path: Path, option: str, page: int) -> None:
    """The order also where everything comes on one page: its last record would not be its newest."""
    async with loaded_mirror(tmp_path, *KEYS_OF_TEN, page_size=page) as (server, mirror, walks):
        server.patch("Property", "K01", City="Elsewhere")
        ignore_option(server, option, "Modification")
        with pytest.raises(SourceError, match="ignores a filter or an order by ModificationTimestamp"):
            await walks.follow_changes()
        assert mirror.held().keys() == set(KEYS_OF_TEN)


async def test_a_source_that_keeps_finer_times_than_it_shows_is_followed(tmp_path: Path) -> None:
    """Its newest record comes with every question for what is newer."""
    async with serve_in_loop(ServerSettings(shows_milliseconds=True)) as server:
        put(server, "Property", "K1", stamped="2026-03-02T08:00:00.123400Z")
        put(server, "Property", "K2", stamped="2026-03-02T08:00:00.123900Z")
        async with open_mirror(server, tmp_path) as mirror:
            walks = mirror.walks["Property"]
            await walks.load()
            for _ in range(3):
                await walks.follow_changes()
                assert walks.state.newest == "2026-03-02T08:00:00.123Z"
            put(server, "Property", "K3", stamped="2026-03-02T08:00:00.124100Z")
            await walks.follow_changes()
            assert mirror.held().keys() == {"K1", "K2", "K3"}


async def test_a_change_in_the_hour_that_comes_twice_is_found_although_its_time_is_earlier(tmp_path: Path) -> None:
    """Of a source whose times have no offset."""
    async with serve_in_loop() as server, open_mirror(server, tmp_path, page_size=1) as mirror:
        walks = mirror.walks["Property"]
        put(server, "Property", "K1", "K2", stamped="2026-03-02T00:30:00")
        await walks.load()
        for shown, city in (("01:45:00", "Daylight"), ("01:10:00", "Standard"), ("02:00:00", "Later")):
            put(server, "Property", "K1" if shown < "02" else "K2", stamped=f"2026-03-02T{shown}", City=city)
            for _ in range(3):
                await walks.follow_changes()
                await walks.recheck_recent()
            assert mirror.is_equal(), shown
