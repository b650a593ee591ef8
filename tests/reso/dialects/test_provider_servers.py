"""Each provider's server answers as its documentation says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.reso.api_reader import ApiReader, open_reader
from tests.reso.dialects.providers import CLIENT, PROVIDERS, SYSTEM, TOKEN
from tests.reso.server.server_settings import ServerFault

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

SIZES = {"properties": 30, "media": 60, "open_houses": 20, "members": 12, "offices": 4, "teams": 2, "team_members": 4}
OF_SYSTEM = f"OriginatingSystemName eq '{SYSTEM}'"


def opened(name: str, **changes: Any) -> AbstractAsyncContextManager[ApiReader]:
    """Open a reader of a provider's server, which has a small world."""
    provider = PROVIDERS[name]
    return open_reader(provider.settings(**{"token": None, "client": None, **changes}), provider.world(**SIZES))


def photos_of(reading: ApiReader, key: Any) -> list[Any]:
    """Return the keys of the photos of a listing in the store."""
    rows = reading.server.records("Media").values()
    return [row["MediaKey"] for row in rows if row["ResourceRecordKey"] == key]


async def test_trestle_sends_ten_rows_or_those_of_top_and_a_link_to_the_next() -> None:
    async with opened("trestle") as reading:
        reading.headers["Prefer"] = "odata.maxpagesize=1000"
        first = await reading.walk("Property")
        assert [len(page) for page in first] == [10, 10, 10, 0]
        assert [len(page) for page in await reading.walk("Property", top="25", orderby="ListingKey")] == [25, 5]


async def test_trestle_replicates_by_an_id_that_sends_the_next_page_each_time() -> None:
    async with opened("trestle") as reading:
        _, body, _ = await reading.ask("Property?$top=12&$orderby=ListingKey&replication=true")
        link, found = body["@odata.nextLink"], body["value"]
        assert "/Property/replication?id=" in link
        while (page := (await reading.ask(link))[1])["value"]:
            assert page["@odata.nextLink"] == link
            found += page["value"]
        assert [row["ListingKey"] for row in found] == reading.server.keys("Property")
        _, body, _ = await reading.ask("Property?$top=12&replication=true")
        reading.server.expire_links()
        assert (await reading.ask(body["@odata.nextLink"]))[0] == 410


async def test_trestle_sends_many_keys_in_one_page() -> None:
    async with opened("trestle", max_page=5) as reading:
        assert len(await reading.rows("Property", select="ListingKey", top="300000")) == 30
        assert len(await reading.rows("Property", select="ListingKey,City", top="300000")) == 5


async def test_bridge_sends_photos_as_a_member_of_their_record() -> None:
    async with opened("bridge") as reading:
        assert (await reading.ask("Media"))[0] == 404
        (row,) = await reading.rows("Property", top="1", filter="PhotosCount gt 2")
        assert [photo["MediaKey"] for photo in row["Media"]] == photos_of(reading, row["ListingKey"])
        (row,) = await reading.rows("Property", top="1", select="ListingKey,City")
        assert set(row) == {"ListingKey", "City"}
        (row,) = await reading.rows("Property", top="1", select="ListingKey,Media")
        assert set(row) == {"ListingKey", "Media"}


async def test_bridge_replicates_in_larger_pages_without_an_order() -> None:
    async with opened("bridge", max_page=4) as reading:
        pages = await reading.walk("Property/replication?$top=20")
        assert [len(page) for page in pages] == [20, 10]
        _, _, headers = await reading.ask("Property/replication?$top=20")
        assert headers["Link"].endswith('>; rel="next"')
        assert (await reading.ask("Property/replication?$orderby=ListingKey"))[0] == 400
        assert len(await reading.rows("Property", top="20")) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a single OriginatingSystemName must be specified"),
        ({"filter": f"{OF_SYSTEM} or MlgCanView eq true"}, "a single OriginatingSystemName must be specified"),
        ({"filter": f"{OF_SYSTEM} and ListingKey gt 'A'"}, "ListingKey is not a searchable field of Property"),
        ({"filter": OF_SYSTEM, "top": "6000"}, "$top: must not be more than 5000"),
        ({"filter": OF_SYSTEM, "top": "2000", "expand": "Media"}, "$top: must not be more than 1000"),
        ({"filter": OF_SYSTEM, "expand": "OpenHouse"}, "Property has no OpenHouse"),
        ({"filter": OF_SYSTEM, "expand": "Media($select=MediaKey)"}, "no options are supported"),
        (
            {"filter": f"{OF_SYSTEM} and ({' or '.join(f'ListingId eq {n!r}' for n in map(str, range(7)))})"},
            "more than 5 'or' operators",
        ),
    ],
)
async def test_mls_grid_refuses_what_replication_does_not_need(options: dict[str, str], said: str) -> None:
    async with opened("mlsgrid") as reading:
        status, body, _ = await reading.ask("Property", **options)
    assert (status, said in body["error"]["message"]) == (400, True), body


async def test_mls_grid_expands_photos_prefixes_keys_and_marks_what_is_deleted() -> None:
    async with opened("mlsgrid") as reading:
        (row, *_) = await reading.rows("Property", filter=OF_SYSTEM, expand="Media")
        assert row["ListingKey"].startswith("ACT")
        assert row["ListAgentKey"].startswith("ACT")
        assert row["ListingKey"].isalnum()
        assert [photo["MediaKey"] for photo in row["Media"]] == photos_of(reading, row["ListingKey"])
        assert reading.server.delete("Property", row["ListingKey"])
        assert reading.server.get("Property", row["ListingKey"]) is None
        gone = await reading.rows("Property", filter=f"{OF_SYSTEM} and MlgCanView eq false")
        assert [each["ListingKey"] for each in gone] == [row["ListingKey"]]
        assert gone[0]["ModificationTimestamp"] > row["ModificationTimestamp"]
        reading.server.purge()
        assert await reading.rows("Property", filter=f"{OF_SYSTEM} and MlgCanView eq false") == []


async def test_mls_grid_requires_compression() -> None:
    async with opened("mlsgrid") as reading:
        reading.headers["Accept-Encoding"] = "identity"
        status, body, _ = await reading.ask("Property", filter=OF_SYSTEM)
    assert (status, body["error"]["message"]) == (400, "COMPRESSION REQUIRED")


async def test_mls_grid_limits_requests_of_a_second_an_hour_and_a_day_and_bytes_of_an_hour() -> None:
    async with opened("mlsgrid", is_limited=True) as reading:
        now = 0.0
        reading.server.ledger.now = lambda: now
        found = [(await reading.ask("Property", filter=OF_SYSTEM))[0] for _ in range(3)]
        assert (found, reading.server.violations) == ([200, 200, 429], 1)
        now = 1.0
        status, _, headers = await reading.ask("Property", filter=OF_SYSTEM)
        assert (status, "Retry-After" in headers) == (200, False)
        reading.server.ledger.sent(4 * 10**9)
        now = 3600.5
        assert (await reading.ask("Property", filter=OF_SYSTEM))[0] == 429
        now = 3601.1
        assert (await reading.ask("Property", filter=OF_SYSTEM))[0] == 200


async def test_spark_expands_photos_and_open_houses_and_links_by_token() -> None:
    async with opened("spark") as reading:
        assert [(await reading.ask(name))[0] for name in ("Media", "OpenHouse")] == [404, 404]
        _, body, _ = await reading.ask("Property", expand="Media,OpenHouse", top="7")
        assert "$skiptoken=" in body["@odata.nextLink"]
        assert "$expand=" in body["@odata.nextLink"]
        rows = [row for page in await reading.walk("Property", expand="Media,OpenHouse", top="7") for row in page]
        assert [row["ListingKey"] for row in rows] == reading.server.keys("Property")
        sent = sorted(each["OpenHouseKey"] for row in rows for each in row["OpenHouse"])
        assert sent == reading.server.keys("OpenHouse")


@pytest.mark.parametrize("name", ["bridge", "mlsgrid", "spark"])
async def test_a_changed_photo_changes_the_time_of_its_listing(name: str) -> None:
    async with opened(name) as reading:
        key, photo = next(
            (row["ResourceRecordKey"], photo)
            for photo, row in reading.server.records("Media").items()
            if row["ResourceName"] == "Property"
        )
        before = (reading.server.get("Property", key) or {})["ModificationTimestamp"]
        reading.server.patch("Media", photo, Order=99)
        between = (reading.server.get("Property", key) or {})["ModificationTimestamp"]
        reading.server.delete("Media", photo)
        after = reading.server.get("Property", key) or {}
    assert before < between < after["ModificationTimestamp"]
    assert after["PhotosChangeTimestamp"] == after["ModificationTimestamp"]


async def test_numeric_keys_are_numbers_everywhere_and_ordered_as_numbers() -> None:
    async with opened("generic") as reading:
        rows = await reading.rows("Property", orderby="ListingKey")
        keys = [row["ListingKey"] for row in rows]
        assert keys == sorted(keys)
        assert all(isinstance(key, int) for key in keys)
        agents = set(reading.server.keys("Member"))
        assert {row["ListAgentKey"] for row in rows} <= agents
        behind = await reading.rows("Property", filter=f"ListingKey gt {keys[10]}", orderby="ListingKey")
        assert [row["ListingKey"] for row in behind] == keys[11:]
        assert (await reading.ask("Property", filter="ListingKey gt '1'"))[0] == 400
        assert (await reading.ask(f"Property({keys[3]})"))[1]["ListingKey"] == keys[3]
        assert (await reading.ask(f"Property('{keys[3]}')"))[0] == 404
        _, metadata, _ = await reading.ask("$metadata")
        assert '<Property Name="ListingKey" Type="Edm.Int64"' in metadata


@pytest.mark.parametrize("name", sorted(PROVIDERS))
async def test_metadata_names_the_sets_and_the_children_that_a_provider_has(name: str) -> None:
    async with opened(name) as reading:
        _, text, _ = await reading.ask("$metadata")
        sets = {row["name"] for row in (await reading.ask(""))[1]["value"]}
    dialect = PROVIDERS[name].dialect
    assert not sets & dialect.not_addressable
    assert "EntityType" in text
    for children in dialect.expanded.values():
        for child in children:
            assert f'<NavigationProperty Name="{child}" Type="Collection(' in text
    for children in dialect.embedded.values():
        for child in children:
            assert f'<Property Name="{child}" Type="Collection(' in text


@pytest.mark.parametrize("name", sorted(PROVIDERS))
async def test_each_has_the_faults(name: str) -> None:
    faults = [ServerFault.TOO_MANY, ServerFault.BROKEN, ServerFault.HTML]
    options = {"filter": OF_SYSTEM} if name == "mlsgrid" else {}
    async with opened(name) as reading:
        for fault in faults:
            reading.server.faults.plan(fault, resource="Property")
        answers = [await reading.ask("Property", **options) for _ in range(4)]
    assert [status for status, _, _ in answers] == [429, 500, 200, 200]
    assert isinstance(answers[2][1], str)


@pytest.mark.parametrize("name", sorted(PROVIDERS))
async def test_each_requires_its_own_token(name: str) -> None:
    provider = PROVIDERS[name]
    async with open_reader(provider.settings()) as reading:
        assert (await reading.ask("$metadata"))[0] == 401
        token = TOKEN
        if name == "trestle":
            form = f"grant_type=client_credentials&client_id={CLIENT[0]}&client_secret={CLIENT[1]}&scope=api"
            assert reading.server.auth.issue(form, "").status == 200
            token = "issued-1"
        reading.headers["Authorization"] = f"Bearer {token}"
        assert (await reading.ask("$metadata"))[0] == 200
