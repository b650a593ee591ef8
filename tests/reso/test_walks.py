"""Everything by key, then what changed by time and key: nothing is missed; what cannot be walked is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from indexer.errors import SourceError
from indexer.reso.standing import Standing
from tests.reso import answers as server_answers
from tests.reso.hostile import FUTURE, KEYS
from tests.reso.mirroring import mirroring, put, small_world
from tests.reso.query import read_query
from tests.reso.serving import serving
from tests.reso.settings import Fault, Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.reso.ledger import Visit
    from tests.reso.query import Query
    from tests.reso.schema import EntityType
    from tests.reso.server import ResoServer

KEYS_OF_TEN = tuple(f"K{number:02}" for number in range(10))


def ignoring(monkeypatch: pytest.MonkeyPatch, option: str, field: str = "") -> None:
    """Let a server ignore a query option, everywhere or where it names a field."""

    def read(entity: EntityType, text: str, prefer: str, settings: Settings) -> Query:
        kept = [each for each in text.split("&") if not (each.startswith(option) and field in each)]
        return read_query(entity, "&".join(kept), prefer, settings)

    monkeypatch.setattr(server_answers, "read_query", read)


def before(server: ResoServer, request: int, change: Callable[[], object], resource: str = "Property") -> None:
    """Change something before a server answers the request of that number for a resource, counted from now."""
    left = [request]

    def on_request(visit: Visit) -> None:
        if visit.resource == resource:
            left[0] -= 1
            if left[0] == 0:
                change()

    server.on_request = on_request


async def test_a_load_reads_everything_by_key_and_never_skips(tmp_path: Path) -> None:
    async with serving(world=small_world()) as server, mirroring(server, tmp_path) as mirror:
        for name, walks in mirror.walks.items():
            await walks.load()
            assert mirror.is_equal(name)
        assert not [visit.text for visit in server.ledger.visits if "$skip" in visit.text]
        pages = [text for text in mirror.asked() if "$orderby=ListingKey" in text]
        # Three pages of 5, and the end that is asked for twice.
        assert len(pages) == 5
        assert all("$filter=ListingKey gt '" in text for text in pages[1:])


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.SLOW])
async def test_a_bad_answer_anywhere_loses_nothing_of_a_load(tmp_path: Path, fault: Fault) -> None:
    """A fault before each page in turn."""
    settings = Settings(retry_after_seconds=0)
    async with serving(settings, small_world()) as server:
        for request in range(1, 6):
            folder = tmp_path / str(request)
            async with mirroring(server, folder) as mirror:
                before(server, request, lambda: server.faults.order(fault, resource="Property"))
                await mirror.walks["Property"].load()
                assert mirror.is_equal()
                assert server.faults.ordered == 0


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.SLOW])
async def test_a_bad_answer_anywhere_loses_nothing_of_following(tmp_path: Path, fault: Fault) -> None:
    """What ends a page too early is gone on with in the next round, all else in the same."""
    async with serving(Settings(retry_after_seconds=0), small_world()) as server, mirroring(server, tmp_path) as mirror:
        walks = mirror.walks["Property"]
        await walks.load()
        for request in range(1, 5):
            for key in server.keys("Property"):
                server.patch("Property", key, City=f"After {request}")
            before(server, request, lambda: server.faults.order(fault, resource="Property"))
            await walks.follow()
            if fault in {Fault.EMPTY, Fault.STOPS_SHORT}:
                await walks.follow()
                await walks.follow()
            assert mirror.is_equal()


async def test_a_slow_answer_makes_pages_smaller(tmp_path: Path) -> None:
    put_many = [f"K{number:03}" for number in range(220)]
    async with serving(Settings(slow_seconds=5.0)) as server:
        put(server, "Property", *put_many)
        async with mirroring(server, tmp_path, page_size=200, timeout_seconds=0.5) as mirror:
            before(server, 2, lambda: server.faults.order(Fault.SLOW, resource="Property"))
            await mirror.walks["Property"].load()
            assert mirror.is_equal()
    wished = [visit.prefer for visit in server.ledger.visits if "orderby=ListingKey" in visit.text]
    assert (wished[0], wished[1]) == ("odata.maxpagesize=200", "odata.maxpagesize=100")


async def test_what_is_inserted_behind_a_walk_and_deleted_behind_it_is_found(tmp_path: Path) -> None:
    async with serving() as server:
        put(server, "Property", *KEYS_OF_TEN)
        async with mirroring(server, tmp_path) as mirror:
            walks = mirror.walks["Property"]

            def change() -> None:
                put(server, "Property", "A1", "K07b")
                server.delete("Property", "K01")
                server.delete("Property", "K08")

            # The mark, the first page, then this.
            before(server, 3, change)
            await walks.load()
            assert mirror.held().keys() == {*KEYS_OF_TEN, "K07b"} - {"K08"}
            await walks.follow()
            assert "A1" in mirror.held()
            await walks.compare()
            assert mirror.is_equal()


async def test_a_load_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    async with serving() as server:
        put(server, "Property", *KEYS_OF_TEN)
        async with mirroring(server, tmp_path, patience_seconds=0.01) as mirror:
            before(server, 3, lambda: server.faults.order(Fault.BROKEN, times=9, resource="Property"))
            with pytest.raises(SourceError, match="no usable answer from the source"):
                await mirror.walks["Property"].load()
        server.faults = type(server.faults)(server.settings)
        server.ledger.clear()
        since = mirror.walks["Property"].standing.since
        async with mirroring(server, tmp_path) as mirror:
            assert mirror.held().keys() == set(KEYS_OF_TEN[:5])
            await mirror.walks["Property"].load()
            assert mirror.is_equal()
            # The mark is the one that was taken before the first page.
            assert mirror.walks["Property"].standing.since == since
            assert not [text for text in mirror.asked() if " desc" in text]
            assert "ListingKey gt 'K04'" in mirror.asked()[0]


async def test_keys_of_any_characters_are_walked_followed_and_read_one_by_one(tmp_path: Path) -> None:
    async with serving(Settings(tick_every=100)) as server:
        put(server, "Property", *KEYS, "a/b", "ends with '", "''", "%2F")
        async with mirroring(server, tmp_path, page_size=2) as mirror:
            walks = mirror.walks["Property"]
            await walks.load()
            assert mirror.is_equal()
            server.touch("Property")
            await walks.follow()
            assert mirror.is_equal()
            server.touch("Property")
            assert await walks.reader.by_keys(sorted(mirror.held())) == set()
            assert mirror.is_equal()
            # By addresses alone, as after an empty answer.
            assert await walks.reader.confirm(sorted(mirror.held())) == set()
            for key in mirror.held():
                server.delete("Property", key)
            assert await walks.reader.by_keys(sorted(mirror.held())) == mirror.held().keys()


@pytest.mark.parametrize("compares_text", [False, True])
@pytest.mark.parametrize("shuffles", [False, True])
async def test_records_that_share_a_time_are_all_followed(
    tmp_path: Path, *, compares_text: bool, shuffles: bool
) -> None:
    settings = Settings(compares_text=compares_text, shuffles_ties=shuffles, tick_every=7)
    async with (
        serving(settings, small_world(properties=40)) as server,
        mirroring(server, tmp_path, page_size=3) as mirror,
    ):
        walks = mirror.walks["Property"]
        await walks.load()
        await walks.follow()
        server.touch("Property")
        for key in server.keys("Property")[:20]:
            server.patch("Property", key, City="Elsewhere")
        server.ledger.clear()
        await walks.follow()
        assert mirror.is_equal()
        # 20 of one time and 20 of three times: each came once, but for a page at the end.
        assert sum(visit.rows for visit in server.ledger.visits) <= 40 + 3


async def test_times_to_come_hide_no_change(tmp_path: Path) -> None:
    async with serving(Settings(tick_ms=60_000)) as server:
        put(server, "Property", *KEYS_OF_TEN)
        for key, stamped in zip(KEYS_OF_TEN, FUTURE, strict=False):
            put(server, "Property", key, stamped=stamped)
        async with mirroring(server, tmp_path, page_size=4) as mirror:
            walks = mirror.walks["Property"]
            await walks.load()
            for number in range(3):
                server.patch("Property", "K09", City=f"Town {number}")
                await walks.follow()
                assert mirror.is_equal()
            # The page that times to come are on is not read again for them, but for the newest change.
            server.ledger.clear()
            await walks.follow()
            assert sum(visit.rows for visit in server.ledger.visits) <= len(FUTURE) + 1


@pytest.mark.parametrize("tick_ms", [1, 60_000])
async def test_a_record_that_changes_again_under_the_same_time_is_read_again(tmp_path: Path, tick_ms: int) -> None:
    """Between any two rounds, and while others have newer times or none has."""
    async with serving(Settings(tick_every=4, tick_ms=tick_ms)) as server:
        put(server, "Property", *KEYS_OF_TEN)
        async with mirroring(server, tmp_path, page_size=3) as mirror:
            await mirror.walks["Property"].load()
        for number in range(9):
            server.patch("Property", KEYS_OF_TEN[-number], City=f"Town {number}")
            server.patch("Property", "K03", City=f"Town {number}")
            for rounds in range(3):
                async with mirroring(server, tmp_path, page_size=3) as mirror:
                    await mirror.walks["Property"].follow()
                    await mirror.walks["Property"].look_back()
                    assert mirror.is_equal(), (number, rounds)
                server.patch("Property", "K03", City=f"Town {number}.{rounds}")


async def test_a_second_change_under_the_same_time_is_found_though_newer_ones_came_in_the_same_walk(
    tmp_path: Path,
) -> None:
    early, later, latest = (f"2026-03-02T{hour}:00:00.000Z" for hour in (10, 11, 12))
    async with serving() as server, mirroring(server, tmp_path, page_size=1) as mirror:
        walks = mirror.walks["Property"]
        put(server, "Property", "K1", "K2", stamped=early)
        await walks.load()
        await walks.follow()
        put(server, "Property", "K2", stamped=later)

        def change() -> None:
            put(server, "Property", "K2", stamped=later, City="Elsewhere")
            put(server, "Property", "K1", stamped=latest)

        # Behind the page that K2 is on.
        server.ledger.clear()
        before(server, 3, change)
        await walks.follow()
        assert not mirror.is_equal()
        assert mirror.held()["K1"]["ModificationTimestamp"] == latest
        server.on_request = None
        await walks.follow()
        assert mirror.is_equal()


async def test_machines_that_are_seconds_apart_hide_no_change(tmp_path: Path) -> None:
    async with serving() as server, mirroring(server, tmp_path) as mirror:
        walks = mirror.walks["Property"]
        put(server, "Property", "K1", stamped="2026-03-02T08:00:00.000Z")
        put(server, "Property", "K2", stamped="2026-03-02T08:00:04.000Z")
        await walks.load()
        for town in ("Arden", "Bellmere"):
            for _ in range(3):
                await walks.follow()
            put(server, "Property", "K1", stamped="2026-03-02T08:00:00.000Z", City=town)
            await walks.follow()
            assert mirror.is_equal()


async def test_what_has_settled_is_not_read_again(tmp_path: Path) -> None:
    async with serving(Settings(tick_ms=60_000)) as server:
        put(server, "Property", *KEYS_OF_TEN)
        for seconds, again in ((3600.0, 1), (0.0, 0)):
            async with mirroring(server, tmp_path, overlap_seconds=seconds) as mirror:
                walks = mirror.walks["Property"]
                await walks.load()
                for _ in range(3):
                    await walks.follow()
                server.ledger.clear()
                await walks.follow()
                assert sum(visit.rows for visit in server.ledger.visits) == again


def test_what_is_newest_is_read_again_until_nothing_newer_has_come_for_long() -> None:
    standing, newest = Standing("2026-03-02T07:50:00.000Z"), ("2026-03-02T08:00:00.000Z", "K1")
    for now in (100.0, 400.0, 699.0):
        standing.place = newest
        standing.end(now, quiet=600.0)
        assert standing.place is None
    assert standing.since == "2026-03-02T07:59:55.000Z"
    standing.place = newest
    standing.end(700.0, quiet=600.0)
    assert standing.place == newest
    standing.place = "2026-03-02T09:00:00.000Z", "K0"
    standing.end(800.0, quiet=600.0)
    assert [standing.place, standing.since] == [None, "2026-03-02T07:59:55.000Z"]


async def test_the_mark_is_of_the_records_clock_and_asked_for_twice(tmp_path: Path) -> None:
    """An empty answer to the mark must not put it at the present, which this source's clock is months behind."""
    async with serving() as server:
        put(server, "Property", *KEYS_OF_TEN)
        server.faults.order(Fault.EMPTY, resource="Property")
        async with mirroring(server, tmp_path) as mirror:
            walks = mirror.walks["Property"]
            await walks.load()
            assert server.faults.ordered == 0
            server.patch("Property", "K03", City="Elsewhere")
            await walks.follow()
            assert mirror.is_equal()


@pytest.mark.parametrize(
    ("option", "field", "said"),
    [
        ("$filter", "", "does not heed a filter by ListingKey"),
        ("$orderby", "", "does not order by ListingKey"),
    ],
)
async def test_a_source_that_ignores_options_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, field: str, said: str
) -> None:
    async with serving(world=small_world()) as server:
        async with mirroring(server, tmp_path) as mirror:
            await mirror.walks["Property"].load()
            before_it = mirror.held()
        ignoring(monkeypatch, option, field)
        async with mirroring(server, tmp_path) as mirror:
            with pytest.raises(SourceError, match=said):
                await mirror.walks["Property"].compare()
            assert mirror.held() == before_it
        async with mirroring(server, tmp_path / "new") as mirror:
            with pytest.raises(SourceError, match=said):
                await mirror.walks["Property"].load()


@pytest.mark.parametrize(("option", "page"), [("$filter", 5), ("$orderby", 50)])
async def test_a_source_that_ignores_options_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, page: int
) -> None:
    """The order also where everything comes on one page: its last record would not be its newest."""
    async with serving() as server, mirroring(server, tmp_path, page_size=page) as mirror:
        put(server, "Property", *KEYS_OF_TEN)
        walks = mirror.walks["Property"]
        await walks.load()
        server.patch("Property", "K01", City="Elsewhere")
        ignoring(monkeypatch, option, "Modification")
        with pytest.raises(SourceError, match="does not heed a filter or an order by ModificationTimestamp"):
            await walks.follow()
        assert mirror.held().keys() == set(KEYS_OF_TEN)


async def test_a_source_that_keeps_finer_times_than_it_shows_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its newest record comes with every question for what is newer."""
    show = server_answers.Answers._shown

    def cut(*arguments: Any) -> dict[str, Any]:
        record = show(*arguments)
        return record | {"ModificationTimestamp": record["ModificationTimestamp"][:23] + "Z"}

    monkeypatch.setattr(server_answers.Answers, "_shown", cut)
    async with serving() as server:
        put(server, "Property", "K1", stamped="2026-03-02T08:00:00.123400Z")
        put(server, "Property", "K2", stamped="2026-03-02T08:00:00.123900Z")
        async with mirroring(server, tmp_path) as mirror:
            walks = mirror.walks["Property"]
            await walks.load()
            for _ in range(3):
                await walks.follow()
                assert walks.standing.newest == "2026-03-02T08:00:00.123Z"
            put(server, "Property", "K3", stamped="2026-03-02T08:00:00.124100Z")
            await walks.follow()
            assert mirror.held().keys() == {"K1", "K2", "K3"}
