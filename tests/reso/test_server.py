"""The server's face: metadata, records by key, refusals, authentication, accounts."""

from __future__ import annotations

import datetime as dt
from urllib.parse import quote
from xml.etree import ElementTree as ET

import aiohttp
import pytest

from tests.reso.hostile import KEYS
from tests.reso.reading import Reader, reader
from tests.reso.schema import ENTITY_TYPES, EVENTS, STAMP
from tests.reso.settings import Fault, Settings
from tests.reso.store import Store

_EDM = "{http://docs.oasis-open.org/odata/ns/edm}"


def by_key(resource: str, key: str) -> str:
    """Return the path of a record."""
    doubled = key.replace("'", "''")
    return f"{resource}('{quote(doubled, safe='')}')"


async def test_metadata_describes_every_resource_in_one_schema() -> None:
    async with reader() as reading:
        status, text, headers = await reading.ask("$metadata")
    schemas = list(ET.fromstring(text).iter(f"{_EDM}Schema"))  # noqa: S314 - its own
    types = {found.get("Name"): found for found in schemas[0].iter(f"{_EDM}EntityType")}
    assert (status, headers["Content-Type"], len(schemas)) == (200, "application/xml", 1)
    assert set(types) == {found.get("Name") for found in schemas[0].iter(f"{_EDM}EntitySet")} == set(ENTITY_TYPES)
    for name, entity in ENTITY_TYPES.items():
        described = {found.get("Name"): found.get("Type") for found in types[name].iter(f"{_EDM}Property")}
        assert described == dict(entity.fields)
        assert [found.get("Name") for found in types[name].iter(f"{_EDM}PropertyRef")] == [entity.key]


async def test_what_a_server_is_without_is_nowhere() -> None:
    async with reader(Settings(without=frozenset({EVENTS, "Property.City"}))) as reading:
        reading.server.put("Property", {"ListingKey": "a", "City": "Ashgrove"})
        _, text, _ = await reading.ask("$metadata")
        statuses = [(await reading.ask(EVENTS))[0], (await reading.ask("Property", filter="City eq 'Ashgrove'"))[0]]
        (row,) = await reading.rows("Property")
        _, document, _ = await reading.ask("")
    assert (EVENTS in text, '"City"' in text, statuses, "City" in row) == (False, False, [404, 400], False)
    assert EVENTS not in {found["name"] for found in document["value"]}


async def test_a_record_is_answered_by_its_key_until_it_is_gone() -> None:
    async with reader() as reading:
        for key in KEYS:
            reading.server.put("Property", {"ListingKey": key})
        found = [(await reading.ask(by_key("Property", key)))[1]["ListingKey"] for key in KEYS]
        reading.server.delete("Property", KEYS[0])
        status, body, _ = await reading.ask(by_key("Property", KEYS[0]))
    assert (found, status, body["error"]["code"]) == (list(KEYS), 404, "40400")


@pytest.mark.parametrize("settings", [Settings(strict=True), Settings(strict=False)])
async def test_an_unknown_name_is_refused_or_ignored(settings: Settings) -> None:
    async with reader(settings) as reading:
        reading.server.put("Property", {"ListingKey": "a", "City": "b"})
        expected = 400 if settings.strict else 200
        assert (await reading.ask("Property", select="City,Nowhere"))[0] == expected
        assert (await reading.ask("Property", orderby="Nowhere"))[0] == expected
        assert (await reading.rows("Property", select="City")) == [{"ListingKey": "a", "City": "b"}]


@pytest.mark.parametrize(
    ("address", "status", "is_odata"),
    [
        ("Nowhere", 404, False),
        ("EntityEvent(5)", 404, False),
        ("EntityEvent('5')", 404, True),
        ("Property?$expand=Media", 501, True),
        ("Property?$top=abc", 500, True),
        ("Property?$skip=-1", 400, True),
        ("Property?$filter=Nowhere%20eq%201", 400, True),
        ("Property?$skiptoken=nonsense", 400, True),
        ("Property?$bogus=1", 200, True),
    ],
)
async def test_what_is_refused(address: str, status: int, is_odata: bool) -> None:
    async with reader() as reading:
        found, body, _ = await reading.ask(address)
    assert (found, isinstance(body, dict)) == (status, is_odata)


@pytest.mark.parametrize(("path", "status"), [("Property('a')", 405), ("Lookup", 404), (EVENTS, 404)])
async def test_nothing_is_written_over_http(path: str, status: int) -> None:
    async with reader() as reading, aiohttp.ClientSession() as session:
        reading.server.put("Property", {"ListingKey": "a"})
        for method in ("POST", "PATCH", "DELETE"):
            async with session.request(method, f"{reading.server.url}/{path}", json={}) as answer:
                assert answer.status == status
        assert reading.server.keys("Property") == ["a"]


async def test_the_server_alone_stamps_and_children_do_not_move_their_parent() -> None:
    async with reader(Settings(tick_every=2)) as reading:
        for key in "abc":
            reading.server.put("Property", {"ListingKey": key, "ModificationTimestamp": "1999-01-01T00:00:00Z"})
        reading.server.put("Media", {"MediaKey": "m", "ResourceName": "Property", "ResourceRecordKey": "a"})
        rows = await reading.rows("Property")
    start = "2026-03-02T08:00:00"
    assert [row["ModificationTimestamp"] for row in rows] == [f"{start}.000Z", f"{start}.000Z", f"{start}.001Z"]


@pytest.mark.parametrize(("cascades", "left"), [(False, 1), (True, 0)])
async def test_children_stay_behind_or_go_first(cascades: bool, left: int) -> None:
    async with reader(Settings(cascades=cascades)) as reading:
        reading.server.put("Property", {"ListingKey": "a"})
        reading.server.put("Media", {"MediaKey": "m", "ResourceName": "Property", "ResourceRecordKey": "a"})
        reading.server.put("OpenHouse", {"OpenHouseKey": "o", "ListingKey": "a"})
        reading.server.delete("Property", "a")
        assert [len(await reading.rows(name)) for name in ("Media", "OpenHouse")] == [left, left]
        events = await reading.rows(EVENTS, orderby="EntityEventSequence")
    assert events[-1]["ResourceName"] == "Property"
    assert len(events) == 4 + 2 * cascades


async def test_a_fixed_token_is_asked_for() -> None:
    async with reader(Settings(token="right")) as reading:
        for given, code in (({}, "40100"), ({"Authorization": "Bearer wrong"}, "40101")):
            reading.headers = given
            status, body, _ = await reading.ask("Property")
            assert (status, body["error"]["code"]) == (401, code)
        reading.headers = {"Authorization": "Bearer right"}
        assert (await reading.ask("Property"))[0] == 200


async def _fetch_token(reading: Reader, secret: str, grant: str = "client_credentials") -> tuple[int, str]:
    form = {"grant_type": grant, "client_id": "us", "client_secret": secret}
    async with aiohttp.ClientSession() as session, session.post(reading.server.token_url, data=form) as answer:
        return answer.status, (await answer.json()).get("access_token", "")


async def test_tokens_are_issued_for_id_and_secret_and_end() -> None:
    async with reader(Settings(client=("us", "secret"), token_requests=2)) as reading:
        assert [await _fetch_token(reading, "wrong"), await _fetch_token(reading, "secret", "password")] == [
            (401, ""),
            (400, ""),
        ]
        _, token = await _fetch_token(reading, "secret")
        reading.headers = {"Authorization": f"Bearer {token}"}
        assert [(await reading.ask("Property"))[0] for _ in range(3)] == [200, 200, 401]
        _, token = await _fetch_token(reading, "secret")
        reading.headers = {"Authorization": f"Bearer {token}"}
        reading.server.auth.expire()
        assert (await reading.ask("Property"))[0] == 401
        assert (reading.server.auth.issued, reading.server.ledger.requests["oauth"]) == (2, 4)


async def test_id_and_secret_may_come_as_basic_too() -> None:
    form = {"grant_type": "client_credentials"}
    async with reader(Settings(client=("us", "secret"))) as reading, aiohttp.ClientSession() as session:
        for secret, status in (("secret", 200), ("wrong", 401)):
            basic = aiohttp.encode_basic_auth("us", secret)
            headers = {"Authorization": basic}
            async with session.post(reading.server.token_url, data=form, headers=headers) as answer:
                assert answer.status == status


def test_the_clock_goes_where_a_test_moves_it() -> None:
    store = Store(Settings(tick_ms=5))
    stamps = [store.put("Office", {"OfficeKey": "a"})[STAMP] for _ in range(2)]
    store.clock.advance(1_000)
    stamps.append(store.put("Office", {"OfficeKey": "a"})[STAMP])
    store.clock.set("2030-01-01T00:00:00Z")
    stamps.append(store.put("Office", {"OfficeKey": "a"})[STAMP])
    assert [stamp[17:] for stamp in stamps] == ["00.000Z", "00.005Z", "01.010Z", "00.000Z"]
    assert stamps[3].startswith("2030-01-01")


def test_stamps_are_the_present_where_the_clock_is_on_the_wall() -> None:
    before = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    stamped = Store(Settings(wall_clock=True)).put("Office", {"OfficeKey": "a"})[STAMP]
    assert before < dt.datetime.fromisoformat(stamped) <= dt.datetime.now(dt.UTC)


async def test_every_request_is_written_down() -> None:
    async with reader() as reading:
        reading.server.put("Member", {"MemberKey": "a"})
        reading.server.put("Office", {"OfficeKey": "a"})
        await reading.rows("Member", select="MemberKey")
        await reading.ask("Member('a')?$select=MemberPassword")
        reading.server.faults.order(Fault.BROKEN)
        await reading.ask("$metadata")
        await reading.rows("Office")
        visits, ledger = reading.server.ledger.visits[:3], reading.server.ledger
    assert [visit.text for visit in visits] == [
        "/Member?$select=MemberKey",
        "/Member('a')?$select=MemberPassword",
        "/$metadata",
    ]
    assert [(visit.status, visit.rows, visit.fault) for visit in visits] == [
        (200, 1, None),
        (200, 1, None),
        (500, 0, Fault.BROKEN),
    ]
    assert ledger.fields("Member") == {"MemberKey", "MemberPassword"}
    assert ledger.fields("Office") == set(ENTITY_TYPES["Office"].fields)
    assert ledger.requests == {"Member": 2, "$metadata": 1, "Office": 1}
    assert ledger.bytes["Member"] == visits[0].bytes + visits[1].bytes > 0


async def test_an_answer_is_tagged_and_compressed_for_who_asks() -> None:
    async with reader(Settings(compresses=True, root_path="/reso/odata")) as reading:
        reading.server.put("Office", {"OfficeKey": "a" * 1000})
        _, _, headers = await reading.ask("Office")
        sent = reading.server.ledger.bytes["Office"]
        reading.headers = {"If-None-Match": headers["Etag"]}
        status, _, _ = await reading.ask("Office")
    assert (headers["Content-Encoding"], headers["OData-Version"], sent < 1000, status) == ("gzip", "4.01", True, 304)
