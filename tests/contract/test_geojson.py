"""Listings as GeoJSON from a real engine: the same records, pages and headers as in JSON, and places on the map."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
import pytest
from multidict import CIMultiDictProxy

from service.geojson import GeoJson
from service.http.requests import ContentCoding
from service.openapi.schemas import FeatureBody, feature_bodies
from service.operation import Operation
from service.resources import OPERATIONS
from tests.contract.request_variants import request_parameters, request_paths
from tests.contract.world import World, source_identifiers
from tests.openapi.document_validators import GEOJSON, JSON, body_validator
from tests.service.http.test_content_coding import PACKED, unpacked

FEED = "/listings?platform_company_id=summit-crest&market_status=all&updated_since=1&page_size=30"
_FORMS = [(operation, form) for operation in OPERATIONS for form in feature_bodies(operation, [GeoJson()])]
_VARYING = {"date", "x-request-id"}


@dataclass(frozen=True)
class RawReply:
    """An answer with its bytes as they came."""

    status: int
    headers: CIMultiDictProxy[str]
    sent: bytes

    @property
    def body(self) -> Any:
        """What it says."""
        return orjson.loads(self.sent)


@pytest.fixture
async def ask(world: World) -> AsyncIterator[Callable[..., Any]]:
    """Ask for GeoJSON, or with other headers."""

    async def asked(path: str, method: str = "GET", /, **headers: str) -> RawReply:
        sent = {"x-api-key": world.keys["all"], "Accept": GEOJSON, "Accept-Encoding": "identity"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with session.request(method, world.http.make_url(f"/v1{path}"), headers=sent) as response:
            return RawReply(response.status, response.headers, await response.read())

    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield asked


@pytest.mark.parametrize(
    ("operation", "form"), _FORMS, ids=[f"{operation.path} {form.name}" for operation, form in _FORMS]
)
async def test_every_form_is_the_json_one_with_places(
    world: World, ask: Any, operation: Operation, form: FeatureBody
) -> None:
    query = "&".join(f"{name}={value}" for name, value in request_parameters(world, operation, form.body).items())
    for path in request_paths(world, operation)[:3]:
        plain, placed = await ask(f"{path}?{query}", Accept=JSON), await ask(f"{path}?{query}")
        assert [answer.headers["Content-Type"] for answer in (plain, placed)] == [JSON, GEOJSON]
        body_validator(operation.path, 200, GEOJSON).validate(placed.body)
        body_validator(operation.path, 200).validate(plain.body)
        name = "listings" if "listings" in plain.body else "Listings"
        is_page = name in plain.body
        found = placed.body["features"] if is_page else [placed.body]
        assert [feature["properties"] for feature in found] == (plain.body[name] if is_page else [plain.body])
        others = {key: value for key, value in plain.body.items() if key != name} if is_page else {}
        assert {key: placed.body[key] for key in others} == others
        for feature in found:
            lower = {key.lower(): value for key, value in feature["properties"].items()}
            assert feature["id"] == lower.get("platformlistingid", lower.get("platform_listing_id"))
            assert feature["geometry"]["coordinates"] == [float(lower["longitude"]), float(lower["latitude"])]


async def test_headers_are_those_of_json_but_for_the_type_and_what_follows_from_it(ask: Any) -> None:
    plain, placed = await ask(FEED, Accept="*/*"), await ask(FEED)
    assert (plain.headers["Content-Type"], placed.headers["Content-Type"]) == (JSON, GEOJSON)
    assert {"Link", "X-Next-Updated-Since", "ETag"} <= placed.headers.keys()
    differing = {name.lower() for name in {*plain.headers} if plain.headers[name] != placed.headers.get(name)}
    assert differing - _VARYING == {"content-type", "content-length", "etag"}
    assert {name.strip() for name in placed.headers["Vary"].split(",")} == {"x-api-key", "Accept", "Accept-Encoding"}


async def test_a_tag_is_of_one_type(ask: Any) -> None:
    tags = {accept: (await ask(FEED, Accept=accept)).headers["ETag"] for accept in (JSON, GEOJSON)}
    for accept, tag in tags.items():
        held = {other: await ask(FEED, Accept=other, If_None_Match=tag) for other in tags}
        assert {other for other in held if held[other].status == 304} == {accept}
        assert "Accept" in held[accept].headers["Vary"].split(", ")


@pytest.mark.parametrize("coding", PACKED)
async def test_it_comes_packed(ask: Any, coding: ContentCoding) -> None:
    plain, packed = await ask(FEED), await ask(FEED, Accept_Encoding=coding.value)
    head = await ask(FEED, "HEAD", Accept_Encoding=coding.value)
    assert packed.headers["Content-Encoding"] == coding.value
    assert unpacked(packed.sent, coding) == plain.sent
    assert (head.headers["Content-Length"], head.sent) == (packed.headers["Content-Length"], b"")


async def test_a_walk_brings_every_listing_once(world: World, ask: Any) -> None:
    found: list[str] = []
    after, is_final = "", False
    while not is_final:
        page = (await ask(FEED + after)).body
        found += [feature["id"] for feature in page["features"]]
        after, is_final = f"&last_platform_listing_id={found[-1]}", page["FinalPage"]
    assert found == source_identifiers(world.of("listings", "summit-crest"))
    assert (await ask(FEED + after)).body == {"type": "FeatureCollection", "FinalPage": True, "features": []}


@pytest.mark.parametrize("path", [FEED, "/sold_listings?updated_since=1"])
async def test_times_alone_have_no_place(ask: Any, path: str) -> None:
    refused = await ask(f"{path}&timestamps_only=true")
    assert (refused.status, refused.headers["Content-Type"]) == (400, "application/problem+json")
    assert [error["parameter"] for error in refused.body["errors"]] == ["timestamps_only"]
    assert (await ask(f"{path}&timestamps_only=true", Accept="*/*")).status == 200


@pytest.mark.parametrize("path", ["/agents", "/offices", "/teams", "/companies", "/companies/summit-crest"])
async def test_what_has_no_place_stays_json(ask: Any, path: str) -> None:
    answer = await ask(path)
    assert (answer.status, answer.headers["Content-Type"]) == (200, JSON)
    assert answer.headers["Vary"] == "x-api-key, Accept-Encoding"
