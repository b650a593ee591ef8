"""Entity tags over real HTTP: a response that the client has is not sent again."""

from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import make_mocked_request

from service.http.requests import ContentCoding
from service.http.responses import CompressionCache, precompress
from service.telemetry.observation import Layer
from tests.service.api_client import services_of
from tests.service.conftest import Open
from tests.service.raw_http import RawResponse, exchange_one, request, serve_raw
from tests.service.stand_in import StandIn

LARGE = "/v1/listings?platform_company_id=acme"
SMALL = "/v1/companies"
SHOW = "/v1/listings/L1"
CODINGS = {"identity": "", "gzip": "-gzip", "zstd": "-zstd"}


class Client:
    """A client of one service with one key."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key

    async def get(self, path: str, method: str = "GET", **headers: str) -> RawResponse:
        """Return the response; underscores in header names become hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await exchange_one(self._port, request(path, method, {"x-api-key": self._key, **named}))


@pytest.fixture
async def port(stand_in: StandIn) -> AsyncIterator[int]:
    """The port of a service with a page that is packed and one that is too small to be."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    stand_in.add("listings", "L1", {"PlatformListingId": "L1", "PublicRemarks": "A quiet street. " * 200})
    async with serve_raw(stand_in.url) as port:
        yield port


@pytest.fixture
def client(port: int, stand_in: StandIn) -> Client:
    """A client with a key for all."""
    return Client(port, stand_in.grant())


@pytest.mark.parametrize("path", [LARGE, SHOW, f"{LARGE}&underscore_response=true"])
async def test_each_coding_has_a_tag_of_its_own(client: Client, path: str) -> None:
    tags = {coding: (await client.get(path, Accept_Encoding=coding)).headers["ETag"] for coding in CODINGS}
    plain = tags["identity"].strip('"')
    assert len(plain) == 32
    assert tags == {coding: f'"{plain}{suffix}"' for coding, suffix in CODINGS.items()}


async def test_a_response_too_small_to_compress_has_one_tag(client: Client) -> None:
    assert len({(await client.get(SMALL, Accept_Encoding=coding)).headers["ETag"] for coding in CODINGS}) == 1


@pytest.mark.parametrize("path", [LARGE, SMALL, SHOW])
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_client_with_the_current_tag_gets_304(client: Client, path: str, coding: str, method: str) -> None:
    whole = await client.get(path, method, Accept_Encoding=coding)
    held = await client.get(path, method, Accept_Encoding=coding, If_None_Match=whole.headers["ETag"])
    assert (whole.status, held.status, held.body) == (200, 304, b"")
    of_bodies = {"Content-Type", "Content-Length", "Content-Encoding"}
    assert {*held.headers} == {*whole.headers} - of_bodies
    assert held.headers["ETag"] == whole.headers["ETag"]


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ("{tag}", 304),
        ("W/{tag}", 304),
        ("*", 304),
        (" * ", 304),
        ('"a", {tag}', 304),
        ('"a",W/"b",,{tag},"c"', 304),
        ('"a, b", {tag}', 304),
        ("nonsense, {tag}", 304),
        ('"a"', 200),
        ("{bare}", 200),
        ('"{bare}-gzip"', 200),
        ('"{upper}"', 200),
        ('w/"a"', 200),
        ('"*"', 200),
        ("**", 200),
        ("", 200),
        ('"', 200),
        ('"\xff", "\xfe"', 200),
    ],
)
async def test_the_tags_that_a_client_has_are_read_by_the_grammar(client: Client, form: str, status: int) -> None:
    tag = (await client.get(LARGE)).headers["ETag"]
    bare = tag.strip('"')
    held = form.format(tag=tag, bare=bare, upper=bare.upper() + "X")
    assert (await client.get(LARGE, If_None_Match=held)).status == status


async def test_several_lines_are_one_list(port: int, stand_in: StandIn) -> None:
    key = {"x-api-key": stand_in.grant()}
    tag = (await exchange_one(port, request(LARGE, headers=key))).headers["ETag"]
    sent = request(LARGE, headers={**key, "If-None-Match": '"a"', "IF-NONE-MATCH": tag})
    assert (await exchange_one(port, sent)).status == 304


async def test_a_change_of_any_byte_is_another_tag(client: Client, stand_in: StandIn) -> None:
    before = (await client.get(LARGE)).headers["ETag"]
    assert (await client.get(LARGE)).headers["ETag"] == before
    stand_in.hits["listings"].clear()
    stand_in.add(
        "listings", "L1", {"PlatformListingId": "L1", "PublicRemarks": "A quiet street. " * 199 + "A quiet strees. "}
    )
    changed = await client.get(LARGE, If_None_Match=before)
    assert changed.status == 200
    assert changed.headers["ETag"] != before


async def test_another_process_gives_the_same_tag(client: Client, stand_in: StandIn) -> None:
    async with serve_raw(stand_in.url) as port:
        other = Client(port, stand_in.grant())
        assert (await other.get(LARGE)).headers["ETag"] == (await client.get(LARGE)).headers["ETag"]


async def test_a_304_compresses_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[object] = []

    async def pack(_: CompressionCache, body: object, coding: object) -> bytes:
        packed.append((body, coding))
        return b""

    tag = (await client.get(LARGE, Accept_Encoding="gzip")).headers["ETag"]
    monkeypatch.setattr("service.http.responses.CompressionCache.compress", pack)
    assert (await client.get(LARGE, Accept_Encoding="gzip", If_None_Match=tag)).status == 304
    assert packed == []


@pytest.mark.parametrize(("path", "status"), [(f"{LARGE}&q=1", 400), ("/v1/nothing", 404), ("/livez", 200)])
async def test_only_answers_of_operations_have_tags(client: Client, path: str, status: int) -> None:
    answer = await client.get(path, If_None_Match="*")
    assert answer.status == status
    assert "ETag" not in answer.headers


async def test_without_a_good_key_a_tag_is_worth_nothing(port: int) -> None:
    assert (await Client(port, "bk_x").get(LARGE, If_None_Match="*")).status == 401


async def test_a_304_is_accounted_for(open_api: Open, stand_in: StandIn) -> None:
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    api = await open_api(server_timing=True)
    held = await api.get(SMALL, headers={"x-api-key": stand_in.grant(), "If-None-Match": "*"})
    assert held.status == 304
    assert "elasticsearch;dur=" in held.headers["Server-Timing"]
    counted = {layer: spent.count for (path, layer), spent in services_of(api).totals.timings.totals.items()}
    assert counted[Layer.ELASTICSEARCH] == 1
    assert Layer.WRITE not in counted


def test_a_304_describes_no_body() -> None:
    """Of a page whose coding is known before it is asked for."""
    page = precompress(b"<html>", ContentCoding.GZIP, {"Content-Type": "text/html", "Cache-Control": "no-cache"})
    sent = {"If-None-Match": page.headers["ETag"]}
    unchanged = page.respond(make_mocked_request("GET", "/docs", headers=sent))
    assert unchanged.status == 304
    assert {**unchanged.headers} == {name: page.headers[name] for name in ("Cache-Control", "Vary", "ETag")}
    assert page.respond(make_mocked_request("GET", "/docs")).headers["Content-Encoding"] == "gzip"
