"""Acres and baths: exact for existing clients, as the contract says for all others, from the same index."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

import orjson
import pytest

from cluster.connection import connect
from sample import write_source
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.contract.conftest import open_world
from tests.contract.test_compatible_clients import ACCEPT, COMPANY, Compatible
from tests.contract.wire_clients import WireClient
from tests.contract.world import Envelope, read_source
from tests.service.raw_http import exchange_one, listening, request

_FRACTIONS = {
    "LotSizeAcres": 0.23,
    "BathroomsFull": 1.5,
    "BathroomsHalf": 0.5,
    "BathroomsTotalInteger": 2.25,
    "BathroomsTotal": 2.5,
}
_WHOLE = {"LotSizeAcres": 0, "BathroomsFull": 2, "BathroomsHalf": 1, "BathroomsTotalInteger": 2, "BathroomsTotal": 3}
# Rounded for all clients.
_ROUNDED = {"ListPrice": (350_000.5, 350_001), "LivingArea": (1_800.4, 1_800)}
_PATHS = {"listings": "updated_since=1&market_status=all", "sold_listings": "sold_since=1"}


@dataclass(frozen=True)
class Fractions:
    """The service over listings of which every second has fractions, and over the same ones without."""

    fractional: Compatible
    whole: Compatible

    def some(self, resource: str) -> list[str]:
        """Return the identifiers with fractions."""
        return [
            envelope["record"]["PlatformListingId"]
            for envelope in self.fractional.world.of(resource, COMPANY)
            if envelope["record"]["LotSizeAcres"] == _FRACTIONS["LotSizeAcres"]
        ]


def _change(path: Path, values: dict[str, Any]) -> None:
    """Give every second record of a file other values."""
    envelopes: list[Envelope] = read_source(path)
    for envelope in envelopes[::2]:
        envelope["record"] |= values
    path.write_bytes(b"\n".join(map(orjson.dumps, envelopes)) + b"\n")


@pytest.fixture(scope="module")
async def fractions(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fractions]:
    """Two installations from sources that differ in fractions alone."""
    folder = tmp_path_factory.mktemp("exact")
    rounded = [{name: pair[at] for name, pair in _ROUNDED.items()} for at in (0, 1)]
    write_source(folder / "source", 120)
    for name, values in (("fractional", _FRACTIONS | rounded[0]), ("whole", _WHOLE | rounded[1])):
        copytree(folder / "source", folder / name)
        for resource in _PATHS:
            _change(folder / name / f"{resource}.ndjson", values)
    everything: dict[str, Any] = {"all_companies": True, "rate": None}
    settings = ServiceSettings(key_concurrency=0, failures_per_minute=0, refusals_per_minute=0)
    grants = {"all": KeyGrant("all", **everything)}
    async with (
        open_world(engine_url, folder / "fractional", grants) as fractional,
        open_world(engine_url, folder / "whole", grants) as whole,
    ):
        opened = []
        for world in (fractional, whole):
            async with connect(world.connection, connections=2, timeout=60) as client:
                store = KeyStore(client, world.connection.keys_index)
                opened.append((await store.create(KeyGrant("p", profile="compatible", **everything))).reveal())
        async with (
            listening(create_app(settings, fractional.connection), settings) as port,
            listening(create_app(settings, whole.connection), settings) as other,
        ):
            yield Fractions(
                Compatible(fractional, port, fractional.keys["all"], opened[0]),
                Compatible(whole, other, whole.keys["all"], opened[1]),
            )


async def body(compatible: Compatible, path: str, key: str, accept: str = "*/*") -> bytes:
    """Return the body of a response."""
    answer = await exchange_one(compatible.port, request(path, headers={"x-api-key": key, "Accept": accept}))
    assert answer.status == 200, answer.body
    return answer.body


def paths(resource: str, identifiers: list[str]) -> list[str]:
    """Return the paths of a resource, in every form."""
    index = f"/v1/{resource}?platform_company_id={COMPANY}&{_PATHS[resource]}"
    shows = [f"/v1/{resource}/{identifier}" for identifier in identifiers]
    plain = [index, f"{index}&page_size=3", f"{index}&timestamps_only=true", *shows]
    spelled = plain if resource == "listings" else plain[:3]  # the show of a sold listing has no such parameter
    return [*plain, *(f"{path}{'&' if '?' in path else '?'}underscore_response=true" for path in spelled)]


def read(record: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """Return some members of a record."""
    return {name: record[name] for name in names}


@pytest.mark.parametrize("name", ["Ruby", "PHP", ".NET"])
@pytest.mark.parametrize("resource", _PATHS)
async def test_existing_clients_see_exact_acres_and_baths(fractions: Fractions, name: str, resource: str) -> None:
    client: WireClient = fractions.fractional.clients()[name]
    query = dict(pair.split("=") for pair in _PATHS[resource].split("&"))
    try:
        found = await client.search(resource, platform_company_id=COMPANY, **query)
        shown = [await client.find(resource, identifier) for identifier in fractions.some(resource)[:3]]
    finally:
        await client.close()
    exact = [record for record in found if record["PlatformListingId"] in fractions.some(resource)]
    assert len(exact) == len(fractions.some(resource)) > 1
    assert len(shown) == min(3, len(exact))
    for record in (*exact, *shown):
        assert read(record, _FRACTIONS) == _FRACTIONS
        assert {name: record[name] for name in _ROUNDED} == {name: whole for name, (_, whole) in _ROUNDED.items()}
    # Apart from the fractions, and for all other records, they see what the contract's API returns.
    plain = {
        record["PlatformListingId"]: record
        for record in await fractions.fractional.world.walk(f"/{resource}", platform_company_id=COMPANY, **query)
    }
    assert [record | read(plain[record["PlatformListingId"]], _FRACTIONS) for record in found] == [*plain.values()]
    assert {type(record["LotSizeAcres"]) for record in found if record not in exact} == {int}


@pytest.mark.parametrize("resource", _PATHS)
async def test_without_the_profile_not_a_byte_differs(fractions: Fractions, resource: str) -> None:
    fractional, whole = fractions.fractional, fractions.whole
    for path in paths(resource, fractions.some(resource)[:2]):
        seen = await body(fractional, path, fractional.plain)
        assert seen == await body(whole, path, whole.plain), path
    assert (
        read(
            orjson.loads(await body(fractional, f"/v1/{resource}/{fractions.some(resource)[0]}", fractional.plain)),
            _WHOLE,
        )
        == _WHOLE
    )


@pytest.mark.parametrize("by_key", [True, False], ids=["by the key", "by Accept"])
@pytest.mark.parametrize("resource", _PATHS)
async def test_every_form_of_a_record_is_exact(fractions: Fractions, resource: str, by_key: bool) -> None:
    fractional = fractions.fractional
    identifier = fractions.some(resource)[0]
    show, index = f"/v1/{resource}/{identifier}", paths(resource, [])[0]
    chosen = (fractional.profiled, "*/*") if by_key else (fractional.plain, ACCEPT)
    spelled = orjson.loads(await body(fractional, f"{index}&underscore_response=true", *chosen))["listings"]
    (record,) = (one for one in spelled if one["platform_listing_id"] == identifier)
    assert (record["lot_size_acres"], record["bathrooms_total"], record["list_price"]) == (0.23, 2.5, 350_001)
    encoded = await body(fractional, show, *chosen)
    assert list(orjson.loads(encoded)) == list(orjson.loads(await body(fractional, show, fractional.plain)))
    brief = await body(fractional, f"{index}&timestamps_only=true", *chosen)
    assert brief == await body(fractional, f"{index}&timestamps_only=true", fractional.plain)
    if by_key:
        features = orjson.loads(await body(fractional, index, fractional.profiled, "application/geo+json"))["features"]
        (feature,) = (one for one in features if one["id"] == identifier)
        assert (feature["properties"]["LotSizeAcres"], feature["geometry"] is None) == (0.23, False)


@pytest.mark.parametrize(
    ("path", "exact"),
    [
        ("/v1/snapshot/listings", b'","exact":{"LotSizeAcres":0.23,'),
        ("/v1/changes", b'","exact":{"LotSizeAcres":0.23,'),
        ("/v1/reso/Property?$select=LotSizeAcres&$top=1000", b'"LotSizeAcres":0.23'),
    ],
)
async def test_feeds_have_fractions_beside_the_record_and_reso_in_it(
    fractions: Fractions, path: str, exact: bytes
) -> None:
    async with fractions.fractional.world.http.get(path, headers={"x-api-key": fractions.fractional.profiled}) as found:
        received = await found.read()
    assert exact in received
    assert (b'"LotSizeAcres":0,' in received) == ("reso" not in path)


async def test_digests_leave_fractions_out(fractions: Fractions) -> None:
    """Copies are proven by digests of what all of them see."""
    fractional, whole = fractions.fractional, fractions.whole
    digests = [orjson.loads(await body(one, "/v1/digest/listings", one.profiled)) for one in (fractional, whole)]
    assert digests[0]["digest"] == digests[1]["digest"]
