"""The server that tests replicate from: the filters that it takes, the faults, and what providers refuse."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession

from tests.reso.dialects.providers import PROVIDERS, SYSTEM
from tests.reso.server.error_responses import ODataError
from tests.reso.server.query import predicate
from tests.reso.server.request_log import LoggedRequest
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_loop
from tests.reso.server.schema import ENTITY_TYPES
from tests.reso.server.server_settings import ServerFault, ServerSettings
from tests.reso.world.generated_world import make_world

_RECORDS: dict[str, dict[str, Any]] = {
    "a": {
        "City": "O'Fallon",
        "ListPrice": 100,
        "PoolPrivateYN": True,
        "StatusChangeTimestamp": "2026-01-01T00:00:00.5Z",
    },
    "b": {"City": "Here", "ListPrice": 250.5, "PoolPrivateYN": False, "StatusChangeTimestamp": "2026-01-02T00:00:00Z"},
    "c": {"StatusChangeTimestamp": "9999-12-31T23:59:59.999Z"},
    "d": {"City": "and", "ListPrice": "***", "StatusChangeTimestamp": "soon"},
}
# Every shape that replication sends, with the keys of the records that match.
_SHAPES = {
    "ListingKey gt 'b'": "cd",
    "ListingKey le 'c'": "abc",
    "(ListingKey le 'c') and (ListingKey gt 'a')": "bc",
    "ListingKey in ('a','c','nowhere')": "ac",
    "ListingKey eq 'a' or ListingKey eq 'd'": "ad",
    "StatusChangeTimestamp ge 2026-01-01T00:00:00.500Z": "abc",
    "StatusChangeTimestamp le 2026-01-01T01:00:00.5+01:00": "a",
    "StatusChangeTimestamp gt 2026-01-01T00:00:00.500Z or"
    " (StatusChangeTimestamp eq 2026-01-01T00:00:00.500Z and ListingKey gt 'a')": "bc",
    "(City eq 'O''Fallon' or City eq 'and') and (ListingKey gt 'a')": "d",
    "PoolPrivateYN eq true": "a",
    "PoolPrivateYN ne false": "acd",
    "ListPrice gt 99.5": "ab",
    "City eq null": "c",
    "not (City eq null)": "abd",
}
_NO_SHAPES = (
    *("", "City", "City eq", "City eq 'open", "City eq 5", "City EQ 'a'", "City eq 'a' and", "(City eq 'a'", "1 eq 1"),
    *("City in ()", "Nowhere eq 'a'", "ListPrice eq 100or ListPrice eq 5", "ListPrice eq 'a'", "contains(City,'a')"),
    *("ListPrice eq 100abc", "StatusChangeTimestamp gt 2026-02-03", "City eq 'a';import os", "row", "holds[0](row)"),
)


@pytest.mark.parametrize("text", _SHAPES)
def test_a_filter_that_replication_sends_holds_for(text: str) -> None:
    holds = predicate(text, ENTITY_TYPES["Property"], ServerSettings())
    assert "".join(key for key, record in _RECORDS.items() if holds(record | {"ListingKey": key})) == _SHAPES[text]


@pytest.mark.parametrize("text", _NO_SHAPES)
def test_any_other_filter_is_refused(text: str) -> None:
    with pytest.raises(ODataError, match=r"^Invalid"):
        predicate(text, ENTITY_TYPES["Property"], ServerSettings())


def test_times_that_are_compared_as_text_miss_the_fractions_of_a_whole_second() -> None:
    settings = ServerSettings(compares_text=True)
    for text, is_found in (("2026-01-01T00:00:00Z", False), ("2026-01-01T00:00:00.000Z", True)):
        holds = predicate(f"StatusChangeTimestamp gt {text}", ENTITY_TYPES["Property"], settings)
        assert holds(_RECORDS["a"]) is is_found


class Reader:
    """Asks a server, by paths behind its root or by links."""

    def __init__(self, server: ResoServer, session: ClientSession) -> None:
        self.server, self._session = server, session

    async def ask(self, address: str, **options: str) -> tuple[int, Any, Any]:
        """Return status, body and headers; options are named without their dollar."""
        url = address if address.startswith("http") else f"{self.server.url}/{address}"
        given = {f"${name}": text for name, text in options.items()} or None
        async with self._session.get(url, params=given) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text()), answer.headers

    async def walk(self, address: str, **options: str) -> list[list[Any]]:
        _, body, _ = await self.ask(address, **options)
        pages = [body["value"]]
        while link := body.get("@odata.nextLink"):
            _, body, _ = await self.ask(link)
            pages.append(body["value"])
        return [[next(value for name, value in row.items() if name.endswith("Key")) for row in page] for page in pages]


@asynccontextmanager
async def open_reader(settings: ServerSettings, **sizes: int) -> AsyncIterator[Reader]:
    usual = {"properties": 30, "media": 60, "open_houses": 20, "members": 12, "offices": 4, "teams": 2}
    world = make_world(1, **{**usual, **sizes}, team_members=4, hostile=0)
    async with serve_in_loop(settings, world) as server, ClientSession() as session:
        yield Reader(server, session)


@pytest.mark.parametrize("paging", ["skip", "token"])
@pytest.mark.parametrize(
    ("fault", "sizes", "count"),
    [
        (None, [10, 10, 10, 0], 30),
        (ServerFault.EMPTY, [0], 0),
        (ServerFault.STOPS_SHORT, [5], 30),
        (ServerFault.SHORT_PAGE, [5, 10, 10, 5], 30),
    ],
)
async def test_links_lead_through_everything_unless_a_page_lacks_rows(
    paging: Any, fault: ServerFault | None, sizes: list[int], count: int
) -> None:
    async with open_reader(ServerSettings(default_page=10, paging=paging)) as reader:
        for _ in range(2 if fault else 0):
            reader.server.faults.plan(fault, resource="Property")  # type: ignore[arg-type]
        _, body, _ = await reader.ask("Property", count="true")
        pages = await reader.walk("Property", orderby="ListingKey desc", select="ListingKey")
    keys = sorted(reader.server.keys("Property"), reverse=True)
    assert ([len(page) for page in pages], body["@odata.count"]) == (sizes, count)
    assert [key for page in pages for key in page] == (keys if sum(sizes) == 30 else keys[: sum(sizes)])


@pytest.mark.parametrize(("paging", "lost"), [("skip", 5), ("token", 0)])
async def test_a_walk_by_skip_loses_untouched_rows_when_others_vanish(paging: Any, lost: int) -> None:
    async with open_reader(ServerSettings(default_page=10, paging=paging)) as reader:
        keys = reader.server.keys("Property")

        def vanish(visit: LoggedRequest) -> None:
            for key in keys[:5] if visit.number == 2 else ():
                reader.server.delete("Property", key)

        reader.server.on_request = vanish
        found = [key for page in await reader.walk("Property", orderby="ListingKey") for key in page]
    assert len(set(keys[5:]) - set(found)) == lost


@pytest.mark.parametrize(
    ("fault", "statuses"),
    [
        (ServerFault.TOO_MANY, [429, 429, 200]),
        (ServerFault.TOO_MANY_DATE, [429, 429, 200]),
        (ServerFault.UNAVAILABLE, [503, 503, 200]),
        (ServerFault.BROKEN, [500, 500, 200]),
        (ServerFault.HTML, [200, 200, 200]),
        (ServerFault.CUT, [0, 0, 200]),
        (ServerFault.TRUNCATED, [0, 0, 200]),
    ],
)
async def test_a_fault_that_is_planned_happens_so_often(fault: ServerFault, statuses: list[int]) -> None:
    async with open_reader(ServerSettings()) as reader:
        reader.server.faults.plan(fault, times=2, resource="Office")
        await reader.ask("Member")
        found: list[int] = []
        for _ in statuses:
            try:
                status, body, headers = await reader.ask("Office")
            except (ClientError, ValueError):
                status = 0
            else:
                assert ("Retry-After" in headers) is (status in {429, 503})
                assert isinstance(body, str) is (fault is ServerFault.HTML and len(found) < 2)
            found.append(status)
    assert found == statuses


_OF_SYSTEM = f"OriginatingSystemName eq '{SYSTEM}'"
_REFUSALS: list[tuple[str, str, dict[str, str], str]] = [
    ("mlsgrid", "Property", {}, "a single OriginatingSystemName must be specified"),
    ("mlsgrid", "Property", {"filter": f"({_OF_SYSTEM} or MlgCanView eq true)"}, "a single OriginatingSystemName must"),
    ("mlsgrid", "Property", {"filter": f"{_OF_SYSTEM} and ListingKey gt 'A'"}, "ListingKey is not a searchable field"),
    ("mlsgrid", "Property", {"filter": _OF_SYSTEM, "top": "6000"}, "$top: must not be more than 5000"),
    ("mlsgrid", "Property", {"filter": _OF_SYSTEM, "top": "2000", "expand": "Media"}, "must not be more than 1000"),
    ("mlsgrid", "Property", {"filter": _OF_SYSTEM, "expand": "OpenHouse"}, "Property has no OpenHouse"),
    ("mlsgrid", "Property", {"filter": _OF_SYSTEM, "expand": "Media($select=MediaKey)"}, "no options are supported"),
    ("mlsgrid", "Property", {"filter": _OF_SYSTEM + " or ListingId eq 'x'" * 6}, "a single OriginatingSystemName"),
    ("bridge", "Property/replication", {"orderby": "ListingKey"}, "is not supported by replication"),
    ("generic", "Property", {"filter": "ListingKey gt '1'"}, "ListingKey is Edm.Int64: '1'"),
    ("generic", "Property", {"select": "Nowhere"}, "Property has no field Nowhere"),
    ("generic", "Property", {"search": "x"}, "$search is not implemented"),
]


@pytest.mark.parametrize(("name", "path", "options", "said"), _REFUSALS)
async def test_providers_refuse(name: str, path: str, options: dict[str, str], said: str) -> None:
    async with open_reader(PROVIDERS[name].settings(token=None)) as reader:
        status, body, _ = await reader.ask(path, **options)
    assert status in {400, 501}
    assert said in body["error"]["message"]


async def test_trestle_replicates_by_an_id_that_sends_the_next_page_each_time() -> None:
    async with open_reader(PROVIDERS["trestle"].settings(client=None)) as reader:
        _, body, _ = await reader.ask(f"{reader.server.url}/Property?$top=12&$orderby=ListingKey&replication=true")
        link, found = body["@odata.nextLink"], body["value"]
        while (page := (await reader.ask(link))[1])["value"]:
            assert page["@odata.nextLink"] == link
            found += page["value"]
    assert [row["ListingKey"] for row in found] == reader.server.keys("Property")


async def test_bridge_replicates_in_larger_pages_and_names_the_next_one_in_a_header_too() -> None:
    async with open_reader(PROVIDERS["bridge"].settings(token=None, max_page=4)) as reader:
        assert [len(page) for page in await reader.walk("Property/replication", top="20")] == [20, 10]
        assert len((await reader.ask("Property", top="20"))[1]["value"]) == 4
        _, _, headers = await reader.ask("Property/replication", top="20")
    assert headers["Link"].endswith('>; rel="next"')


@pytest.mark.parametrize(("name", "options"), [("bridge", {}), ("mlsgrid", {"filter": _OF_SYSTEM}), ("spark", {})])
async def test_photos_come_with_their_listing_and_change_its_time(name: str, options: dict[str, str]) -> None:
    expand = {} if name == "bridge" else {"expand": "Media"}
    async with open_reader(PROVIDERS[name].settings(token=None)) as reader:
        assert (await reader.ask("Media"))[0] == 404
        _, body, _ = await reader.ask("Property", top="30", **options, **expand)
        row = next(row for row in body["value"] if len(row["Media"]) > 1)
        key, photo = row["ListingKey"], row["Media"][0]["MediaKey"]
        reader.server.delete("Media", photo)
        after = reader.server.get("Property", key) or {}
        assert photo not in {left["MediaKey"] for left in reader.server.children_of("Property", key, "Media")}
        assert row["ModificationTimestamp"] < after["ModificationTimestamp"] == after["PhotosChangeTimestamp"]
        reader.server.delete("Property", key)
        _, body, _ = await reader.ask("Property", top="30", **options, **expand)
        gone = [row for row in body["value"] if row["ListingKey"] == key]
    assert [row["MlgCanView"] for row in gone] == ([False] if name == "mlsgrid" else [])
