"""How programs sign in: a user name and a password, which Excel, Power BI and Tableau ask for, and next links alone."""

from base64 import b64encode

import pytest
from yarl import URL

from service.keys.api_key import parse_key
from service.reso.continuation import Continuation, link_contents
from service.reso.ordering import SkipToken, fingerprint_query
from service.services import SERVICES
from tests.contract.world import World
from tests.odata.conftest import MarketClient
from tests.odata.odata_client import ODataClient

_BAD = "invalid-parameter"


def _basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


async def test_a_key_is_a_user_name_and_a_password_here_alone(odata_over_socket: ODataClient) -> None:
    client = odata_over_socket
    key, other = client.keys["all"], client.keys["two"]
    key_id, secret = key[3:13], key[14:]
    here, elsewhere = client.root / "Teams", client.root.parent / "teams"
    for url, headers, status in (
        (here, _basic(key_id, secret), 200),
        (here, _basic(key[:13], secret), 200),
        (here, _basic("anyone", key), 200),
        (here, _basic("", key), 200),
        (here / "$count", _basic(key_id, secret), 200),
        (client.root / "$metadata", _basic(key_id, secret), 200),
        (here, _basic(key_id, secret) | {"x-api-key": other}, 200),
        (here, _basic(key_id, other[14:]), 401),
        (here, _basic(other[3:13], secret), 401),
        (here, _basic(key_id, ""), 401),
        (here, _basic(key, ""), 401),
        (here, _basic("anyone", key[:-1]), 401),
        (here, {"Authorization": "Basic not base64"}, 401),
        (elsewhere, _basic(key_id, secret), 401),
    ):
        reply = await client.request(url, None, headers)
        assert reply.status == status, (url, headers)
        if status == 401 and url == here:
            assert "user name" in reply.body["error"]["message"]
            assert "x-api-key" not in reply.body["error"]["message"]


@pytest.mark.parametrize("headers", [{}, _basic("a", "b")])
async def test_a_program_is_asked_for_a_user_name_and_a_password(
    odata_over_socket: ODataClient, headers: dict[str, str]
) -> None:
    reply = await odata_over_socket.request("", None, headers)
    assert reply.problem == (401, "unauthorized", "")
    challenges = reply.headers["WWW-Authenticate"].split(", ")
    assert challenges == ['Bearer realm="brokerage"', 'ApiKey realm="brokerage"', 'Basic realm="brokerage"']


async def _walk(client: ODataClient, url: URL) -> list[str]:
    """Return the keys of all rows, following each link as it is."""
    found: list[str] = []
    while True:
        reply = await client.request(url, None, {"Prefer": "maxpagesize=2"})
        assert reply.status == 200, reply.raw
        assert reply.headers["Cache-Control"] == "no-store"
        assert client.keys["a"] not in reply.raw.decode()
        found += [row.get("ListingKey") or str(row["EntityEventSequence"]) for row in reply.body["value"]]
        if (link := reply.body.get("@odata.nextLink")) is None:
            return found
        url = URL(link, encoded=True)


async def _link(client: ODataClient, headers: dict[str, str] | None = None, **more: str) -> URL:
    """Return the next link of a page whose key comes in the URL."""
    query = {"api-key": client.keys["a"], "$top": "5", "$select": "ListPrice", **more}
    page = await client.request(
        (client.root / "Property").with_query(query), None, {"Prefer": "maxpagesize=1", **(headers or {})}
    )
    return URL(page.body["@odata.nextLink"], encoded=True)


@pytest.mark.parametrize("name", ["Property", "EntityEvent"])
async def test_a_program_with_its_key_in_the_url_follows_links_as_they_are(unchanged: MarketClient, name: str) -> None:
    url = (unchanged.root / name).with_query({"api-key": unchanged.keys["a"], "$count": "true"})
    expected = await unchanged.walk(name, "a")
    assert await _walk(unchanged, url) == [row.get("ListingKey") or str(row["EntityEventSequence"]) for row in expected]
    assert len(expected) > 4


async def test_a_link_opens_nothing_but_the_rest_of_its_query(unchanged: MarketClient) -> None:
    link = await _link(unchanged)
    token = link.query["$skiptoken"]
    assert (await unchanged.request(link, None)).status == 200
    elsewhere = unchanged.root / "Property"
    for altered in (
        link.update_query({"$select": "ListPrice,City"}),
        link.update_query({"$top": "50"}),
        link.update_query({"$filter": "ListPrice gt 1"}),
        link.update_query({"$expand": "Media"}),
        link.with_path("/v1/reso/Member", keep_query=True),
        link.with_path("/v1/listings", keep_query=True),
        link.with_path("/v1/reso/Property/$count", keep_query=True),
        elsewhere.with_query({"$skiptoken": token}),
        elsewhere.with_query({"$skiptoken": token[:-4] + "AAAA"}),
        link.update_query(
            {"$skiptoken": (await _link(unchanged, {"x-api-key": unchanged.keys["a"]})).query["$skiptoken"]}
        ),
    ):
        assert (await unchanged.request(altered, None)).status == 401, altered
    # A key that is sent counts alone; a wrong one is not replaced by the link.
    assert (await unchanged.request(link, "b")).status == 200
    assert (await unchanged.request(link, None, {"x-api-key": "bk_x"})).status == 401
    assert (await unchanged.request(link, None, _basic("a", "b"))).status == 401


async def test_a_link_without_a_key_is_given_to_those_alone_whose_key_came_in_the_url(unchanged: MarketClient) -> None:
    page = await unchanged.page("Property", "a", {"Prefer": "maxpagesize=1"})
    assert (await unchanged.request(URL(page["@odata.nextLink"], encoded=True), None)).status == 401


@pytest.mark.parametrize(("until", "problem"), [(0, (401, "unauthorized", "")), (2**40, (400, _BAD, "$skiptoken"))])
async def test_a_link_proves_a_key_for_some_hours(
    world: World, odata: ODataClient, until: int, problem: tuple[int, str, str]
) -> None:
    """The second is accepted with its key, and refused for its position."""
    text = parse_key(world.keys["all"])
    assert text is not None
    query = fingerprint_query("/v1/reso/Property", [("$top", "5")])
    proved = Continuation(text.key_id, bytes.fromhex(text.digest), until, query)
    token = await world.http.app[SERVICES].tokens.seal(link_contents(SkipToken(b"", 1), proved))
    assert (await odata.get("Property", None, top=5, skiptoken=token)).problem == problem
