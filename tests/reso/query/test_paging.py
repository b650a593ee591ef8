"""Pages: both kinds of next links, what is lost by which way of walking, and that an index answers as a scan would."""

from urllib.parse import unquote

import pytest

from sample.ingredients import pick, seeded_random
from tests.reso.api_reader import open_reader
from tests.reso.query.filter_grammar import parse
from tests.reso.query.filter_predicates import PredicateBuilder
from tests.reso.server.request_log import LoggedRequest
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.schema import Record
from tests.reso.server.server_settings import ServerSettings

_KINDS = ("skip", "token")


def fill(server: ResoServer, count: int) -> list[str]:
    """Put so many records, and return their keys in the order of their arrival, which equals no other order."""
    keys = [f"K{(number * 7919) % count:04d}" for number in range(count)]
    for number, key in enumerate(keys):
        server.put("Media", {"MediaKey": key, "Order": number % 5})
    return keys


def keys_of(rows: list[Record]) -> list[str]:
    """Return the keys of media."""
    return [row["MediaKey"] for row in rows]


def keys_on_pages(pages: list[list[Record]]) -> list[str]:
    """Return the keys on pages."""
    return [key for page in pages for key in keys_of(page)]


@pytest.mark.parametrize("paging", _KINDS)
async def test_links_lead_through_everything_and_end_behind_a_page_that_is_not_full(paging: str) -> None:
    async with open_reader(ServerSettings(default_page=10, paging=paging)) as reading:  # type: ignore[arg-type]
        keys = fill(reading.server, 40)
        assert [len(page) for page in await reading.walk("Media")] == [10, 10, 10, 10, 0]
        assert [len(page) for page in await reading.walk("Media", filter="MediaKey lt 'K0025'")] == [10, 10, 5]
        assert keys_on_pages(await reading.walk("Media")) == keys
        assert keys_on_pages(await reading.walk("Media", orderby="MediaKey desc")) == sorted(keys, reverse=True)
        ordered = keys_on_pages(
            await reading.walk("Media", orderby="Order desc,MediaKey", select="MediaKey", count="true")
        )
        assert ordered == sorted(keys, key=lambda key: (-(keys.index(key) % 5), key))


async def test_a_link_carries_the_options_and_not_the_page_size() -> None:
    async with open_reader(ServerSettings(default_page=10, max_page=15)) as reading:
        fill(reading.server, 40)
        reading.headers = {"Prefer": "odata.maxpagesize=12"}
        _, body, headers = await reading.ask(
            "Media", filter="Order lt 9", select="MediaKey,Order", orderby="MediaKey", count="true"
        )
        reading.headers = {"Prefer": "odata.maxpagesize=99"}
        _, _, most = await reading.ask("Media")
        reading.headers = {}
        _, second, _ = await reading.ask(body["@odata.nextLink"])
    assert body["@odata.nextLink"].endswith(
        "?$filter=Order%20lt%209&$select=MediaKey%2COrder&$orderby=MediaKey&$skip=12&$count=true"
    )
    assert (len(body["value"]), body["@odata.count"], len(second["value"])) == (12, 40, 10)
    assert (headers["Preference-Applied"], most["Preference-Applied"]) == (
        "odata.maxpagesize=12",
        "odata.maxpagesize=15",
    )


@pytest.mark.parametrize("paging", _KINDS)
async def test_top_means_rows_in_all(paging: str) -> None:
    async with open_reader(ServerSettings(default_page=10, max_page=15, paging=paging)) as reading:  # type: ignore[arg-type]
        fill(reading.server, 40)
        assert [len(page) for page in await reading.walk("Media", top="12")] == [12]
        assert [len(page) for page in await reading.walk("Media", top="35")] == [15, 15, 5]
        assert [len(page) for page in await reading.walk("Media", top="30")] == [15, 15]


@pytest.mark.parametrize(("owes", "rows"), [(True, [10, 0]), (False, [20, 20])])
async def test_top_and_skip_together_are_broken_as_on_the_reference_server_or_not(owes: bool, rows: list[int]) -> None:
    async with open_reader(ServerSettings(owes_top_less_skip=owes)) as reading:
        fill(reading.server, 40)
        assert [len(await reading.rows("Media", top="20", skip=skip)) for skip in ("10", "20")] == rows


@pytest.mark.parametrize(("paging", "lost"), [("skip", 5), ("token", 0)])
async def test_a_walk_by_skip_loses_untouched_rows_when_others_vanish(paging: str, lost: int) -> None:
    async with open_reader(ServerSettings(default_page=10, paging=paging)) as reading:  # type: ignore[arg-type]
        keys = sorted(fill(reading.server, 40))

        def vanish(visit: LoggedRequest) -> None:
            if visit.number == 2:
                for key in keys[:5]:
                    reading.server.delete("Media", key)

        reading.server.on_request = vanish
        found = keys_on_pages(await reading.walk("Media", orderby="MediaKey"))
    assert len(set(keys[5:]) - set(found)) == lost


async def test_a_walk_by_the_key_loses_nothing_while_rows_come_and_go() -> None:
    async with open_reader() as reading:
        untouched, chance = fill(reading.server, 200), seeded_random(1, "comings and goings")
        gone = {untouched.pop() for _ in range(40)}

        def change(visit: LoggedRequest) -> None:
            reading.server.put("Media", {"MediaKey": f"K{chance.randrange(200):04d}x"})
            if gone:
                reading.server.delete("Media", gone.pop())
                reading.server.patch("Media", pick(chance, untouched), Order=visit.number)

        reading.server.on_request = change
        found = await reading.follow("Media", "MediaKey", lambda row: f"MediaKey gt '{row['MediaKey']}'", 7)
    assert set(untouched) <= set(keys_of(found))
    assert keys_of(found) == sorted(set(keys_of(found)))


def after_moment(row: Record) -> str:
    """The obvious filter, which loses ties."""
    return f"ModificationTimestamp gt {row['ModificationTimestamp']}"


def after_moment_and_key(row: Record) -> str:
    """The filter that does not."""
    moment = row["ModificationTimestamp"]
    return (
        f"ModificationTimestamp gt {moment} or (ModificationTimestamp eq {moment} and MediaKey gt '{row['MediaKey']}')"
    )


async def test_a_walk_by_the_moment_loses_ties_and_one_by_moment_and_key_does_not() -> None:
    async with open_reader(ServerSettings(tick_every=11)) as reading:
        keys = fill(reading.server, 220)
        by_moment = await reading.follow("Media", "ModificationTimestamp", after_moment, 25)
        by_both = await reading.follow("Media", "ModificationTimestamp,MediaKey", after_moment_and_key, 25)
    assert 0 < len(set(keys_of(by_moment))) < len(keys)
    assert sorted(keys_of(by_both)) == sorted(keys)


async def test_ties_come_in_another_order_each_time_where_the_server_shuffles_them() -> None:
    async with open_reader(ServerSettings(tick_every=100, shuffles_ties=True, default_page=10)) as reading:
        keys = fill(reading.server, 100)
        walked = keys_on_pages(await reading.walk("Media", orderby="ModificationTimestamp"))
        settled = keys_on_pages(await reading.walk("Media", orderby="ModificationTimestamp,MediaKey"))
    assert len(set(walked)) < len(keys)
    assert settled == sorted(keys)


@pytest.mark.parametrize(("moves", "expected"), [(False, ["a", "b", "c"]), (True, ["b", "c", "a"])])
async def test_without_an_order_rows_come_as_they_lie_in_the_heap(moves: bool, expected: list[str]) -> None:
    async with open_reader(ServerSettings(updates_move_rows=moves)) as reading:
        for key in "abc":
            reading.server.put("Media", {"MediaKey": key})
        reading.server.patch("Media", "a", Order=1)
        assert keys_of(await reading.rows("Media")) == expected


async def test_an_opaque_link_holds_until_the_server_forgets_it() -> None:
    async with open_reader(ServerSettings(paging="token", default_page=2)) as reading:
        fill(reading.server, 5)
        _, body, _ = await reading.ask("Media")
        assert "$skip=" not in unquote(body["@odata.nextLink"])
        assert (await reading.ask(body["@odata.nextLink"]))[0] == 200
        reading.server.expire_links()
        assert (await reading.ask(body["@odata.nextLink"]))[0] == 410


@pytest.mark.parametrize(
    "order",
    ["MediaKey", "MediaKey desc", "ModificationTimestamp,MediaKey", "ModificationTimestamp desc,Order,MediaKey"],
)
@pytest.mark.parametrize(
    "where",
    [
        "MediaKey gt 'K0100' and MediaKey le 'K0150'",
        "MediaKey in ('K0003','K0100','nowhere') or MediaKey eq 'K0007'",
        "not (MediaKey lt 'K0190')",
        "ModificationTimestamp ge 2026-03-02T08:00:00.004Z and ModificationTimestamp lt 2026-03-02T08:00:00.009Z",
        "ModificationTimestamp eq 2026-03-02T08:00:00.004Z and MediaKey gt 'K0100'",
        "ModificationTimestamp gt 2026-03-02T10:00:00.006+02:00 or MediaKey eq 'K0007'",
        "Order eq 3",
    ],
)
async def test_an_index_answers_as_a_scan_would(order: str, where: str) -> None:
    async with open_reader(ServerSettings(tick_every=20, default_page=30)) as reading:
        fill(reading.server, 200)
        holds = PredicateBuilder(reading.server.entities["Media"]).predicate(parse(where))
        expected = [record for record in reading.server.records("Media").values() if holds(record)]
        found = keys_on_pages(await reading.walk("Media", filter=where, orderby=order))
    for term in reversed(order.split(",")):
        name, _, direction = term.partition(" ")
        expected.sort(key=lambda row, name=name: row[name], reverse=direction == "desc")  # type: ignore[misc]
    assert found == keys_of(expected) != []
