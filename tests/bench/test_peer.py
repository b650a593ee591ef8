"""The FastAPI peer answers what our service answers, over the same index."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest

from bench.peers.fastapi_peer.models import IndexListing, Listing
from embedded.ports import free_ports
from mappings import LISTING
from mappings.fields import View
from tests.bench.commands import line_with, running
from tests.bench.conftest import COMPANY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic import BaseModel

    from mappings.fields import Field
    from tests.bench.conftest import Corner

_KEY = "a-key-of-the-peer"
_WEEK_SECONDS = 7 * 24 * 3600
EVER: dict[str, Any] = {"platform_company_id": COMPANY, "updated_since": 1, "market_status": "all"}


class Peer:
    """The peer over HTTP."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        """Ask with a session whose addresses are relative to the peer's."""
        self._session = session

    async def get(self, path: str, key: str | None = _KEY, /, **parameters: object) -> tuple[int, Any]:
        """Return status and parsed body."""
        query = {name: str(value) for name, value in parameters.items()}
        headers = {} if key is None else {"x-api-key": key}
        async with self._session.get(path, params=query, headers=headers) as response:
            return response.status, orjson.loads(await response.read())

    async def answer(self, path: str, **parameters: object) -> Any:
        """Return the body of an answer that must be 200."""
        status, body = await self.get(path, **parameters)
        assert status == 200, body
        return body


@pytest.fixture(scope="session")
async def peer(corner: Corner) -> AsyncIterator[Peer]:
    """The peer as a process over the corner's index."""
    [port] = free_ports(1)
    environment = {
        "ELASTICSEARCH_URL": corner.connection.url[0],
        "PEER_INDEX": corner.index,
        "PEER_API_KEY": _KEY,
    }
    with running("bench.peers.fastapi_peer", "--port", str(port), environment=environment) as process:
        line_with(process, "Uvicorn running on")
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            yield Peer(session)


@pytest.mark.parametrize("market_status", ["on-market", "off-market", "all"])
@pytest.mark.parametrize("page_size", [1, 20, 1000])
async def test_a_page_is_what_our_service_answers(
    corner: Corner, peer: Peer, market_status: str, page_size: int
) -> None:
    parameters = EVER | {"market_status": market_status, "page_size": page_size}
    page = await peer.answer("/listings", **parameters)
    assert page["Listings"]
    assert page == await corner.ours("/listings", **parameters)


async def test_a_page_holds_200_unless_asked_otherwise(corner: Corner, peer: Peer) -> None:
    assert await peer.answer("/listings", **EVER) == await corner.ours("/listings", **EVER)


async def test_a_page_begins_behind_the_cursor(corner: Corner, peer: Peer) -> None:
    parameters = EVER | {"last_platform_listing_id": corner.identifiers[3], "page_size": 5}
    page = await peer.answer("/listings", **parameters)
    assert _received(page) == corner.identifiers[4:9]
    assert page == await corner.ours("/listings", **parameters)


async def test_a_full_last_page_is_final(corner: Corner, peer: Peer) -> None:
    count = len(corner.identifiers)
    assert (await peer.answer("/listings", **EVER, page_size=count))["FinalPage"] is True
    assert (await peer.answer("/listings", **EVER, page_size=count - 1))["FinalPage"] is False


async def test_updated_since_narrows_as_ours_does_and_is_a_week_when_absent(corner: Corner, peer: Peer) -> None:
    last_week = EVER | {"updated_since": int(time.time()) - _WEEK_SECONDS}
    page = await peer.answer("/listings", **last_week)
    assert 0 < len(page["Listings"]) < len(corner.identifiers)
    assert page == await corner.ours("/listings", **last_week)
    assert page == await peer.answer("/listings", platform_company_id=COMPANY, market_status="all")


@pytest.mark.parametrize("page_size", [7, 200])
async def test_a_walk_gives_every_record_once(corner: Corner, peer: Peer, page_size: int) -> None:
    found: list[str] = []
    cursor: dict[str, str] = {}
    final = False
    while not final:
        page = await peer.answer("/listings", **EVER, page_size=page_size, **cursor)
        found += _received(page)
        assert len(found) <= len(corner.identifiers)
        final, cursor = page["FinalPage"], {"last_platform_listing_id": found[-1]}
    assert found == corner.identifiers


async def test_a_show_is_what_our_service_answers(corner: Corner, peer: Peer) -> None:
    for identifier in corner.identifiers[:20]:
        path = f"/listings/{identifier}"
        assert await peer.answer(path) == await corner.ours(path)


async def test_a_listing_that_is_not_there_or_deleted_is_not_found(corner: Corner, peer: Peer) -> None:
    assert (await peer.get("/listings/none"))[0] == 404
    assert (await peer.get(f"/listings/{corner.deleted}"))[0] == 404


@pytest.mark.parametrize("key", [None, "", "another"])
@pytest.mark.parametrize("path", ["/listings", "/listings/none"])
async def test_a_wrong_key_is_refused(peer: Peer, path: str, key: str | None) -> None:
    status, body = await peer.get(path, key, **EVER)
    assert status == 401
    assert set(body) == {"detail"}


@pytest.mark.parametrize(
    "wrong", [{"page_size": 1001}, {"page_size": 0}, {"market_status": "some"}, {"underscore_response": "true"}]
)
async def test_wrong_parameters_are_refused(peer: Peer, wrong: dict[str, object]) -> None:
    assert (await peer.get("/listings", **(EVER | wrong)))[0] == 422


async def test_a_company_is_required(peer: Peer) -> None:
    assert (await peer.get("/listings", market_status="all"))[0] == 422


@pytest.mark.parametrize(("model", "view"), [(IndexListing, View.INDEX), (Listing, View.SHOW)])
def test_the_models_have_every_member_of_the_contract(model: type[BaseModel], view: View) -> None:
    assert _names(model) == {name for field in LISTING.view(view) for name in _declared(field)}


def _names(model: type[BaseModel]) -> set[str]:
    """Return the paths of a model's members, nested ones too."""
    properties = model.model_json_schema()["properties"]
    nested = {name: schema["properties"] for name, schema in model.model_json_schema()["$defs"].items()}
    paths = set(properties)
    for name, schema in properties.items():
        for definition, members in nested.items():
            if f"#/$defs/{definition}'" in str(schema):
                paths |= {f"{name}.{member}" for member in members}
    return paths


def _declared(field: Field) -> list[str]:
    return [field.name, *(f"{field.name}.{member.name}" for member in field.members)]


def _received(page: dict[str, Any]) -> list[str]:
    return [listing["PlatformListingId"] for listing in page["Listings"]]
