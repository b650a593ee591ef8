"""The canned engine answers with the bytes of the real one, and asks it once."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from bench.replay import Replay, listen
from service.app import create_app
from service.settings import ServiceSettings
from tests.bench.commands import line_with, running
from tests.bench.conftest import COMPANY
from tests.bench.relay import Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.bench.conftest import Corner

_PAGE = {"size": 150, "query": {"term": {"company": COMPANY}}, "sort": ["id"]}
_PLAIN = {"content-type": "application/json"}
# A request that is never answered is a failure, not a run without end.
_PATIENCE_SECONDS = 30
_TYPED = "application/vnd.elasticsearch+json; compatible-with=9"


@pytest.fixture
async def relay(corner: Corner) -> AsyncIterator[Relay]:
    """A relay before the engine."""
    relay = Relay(corner.connection.url[0])
    await relay.open()
    yield relay
    await relay.close()


@pytest.fixture
def port(relay: Relay) -> Iterator[int]:
    """The port of a canned engine that asks through the relay."""
    with running("bench.replay", "--port", "0", "--upstream", relay.url, environment={}) as process:
        yield int(line_with(process, "ready: http://127.0.0.1:").rpartition(":")[2])


def request(method: str, target: str, body: Any = None, **headers: str) -> bytes:
    """Return a request as bytes; the body is JSON, or bytes as they are."""
    encoded = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    lines = [f"{method} {target} HTTP/1.1", "host: engine", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"content-length: {len(encoded)}", "", ""]).encode() + encoded


class Line:
    """One connection to the canned engine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use the two ends of a connection."""
        self._reader, self.writer = reader, writer

    async def ask(self, *parts: bytes) -> bytes:
        """Send a request, its parts a moment apart, and return the answer as it came."""
        for part in parts:
            self.writer.write(part)
            await asyncio.sleep(0.05 if len(parts) > 1 else 0)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await self._answer()

    async def _answer(self) -> bytes:
        head = await self.head()
        if b"transfer-encoding: chunked" in head.lower():
            return head + await self._reader.readuntil(b"\r\n0\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        return head + await self._reader.readexactly(int(length[1]) if length else 0)

    async def head(self) -> bytes:
        """Return the next answer up to its body."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await self._reader.readuntil(b"\r\n\r\n")


async def dial(port: int) -> Line:
    """Open a connection."""
    # The stream's own limit is smaller than a page.
    return Line(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))


async def once(port: int, *parts: bytes) -> bytes:
    """Ask on a connection of its own."""
    line = await dial(port)
    answer = await line.ask(*parts)
    line.writer.close()
    return answer


def questions(corner: Corner) -> dict[str, tuple[bytes, int, bool]]:
    """Return requests, the status of their answer, and whether that comes in chunks."""
    search, document = f"/{corner.index}/_search", f"/{corner.index}/_doc"
    return {
        "page": (request("POST", search, _PAGE, **_PLAIN), 200, True),
        "count": (request("POST", search, {"size": 0}, **_PLAIN), 200, True),
        "document": (request("GET", f"{document}/{corner.identifiers[0]}"), 200, False),
        "no document": (request("GET", f"{document}/none"), 404, False),
        "no index": (request("POST", f"/{corner.index}-none/_search", _PAGE, **_PLAIN), 404, False),
        "bad query": (request("POST", search, {"query": {"none": 1}}, **_PLAIN), 400, False),
        "bad JSON": (request("POST", search, b'{"size"', **_PLAIN), 400, False),
    }


@pytest.mark.parametrize("name", ["page", "count", "document", "no document", "no index", "bad query", "bad JSON"])
async def test_an_answer_is_the_engines_bytes_and_comes_again_without_it(
    corner: Corner, relay: Relay, port: int, name: str
) -> None:
    asked, status, is_chunked = questions(corner)[name]
    answer = await once(port, asked)
    assert answer == bytes(relay.answers)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert (b"\r\nTransfer-Encoding: chunked\r\n" in answer) is is_chunked
    assert b"\r\nX-elastic-product: Elasticsearch\r\n" in answer
    await relay.close()
    assert await once(port, asked) == answer
    assert relay.asked() == 1


async def test_a_page_comes_in_several_chunks(corner: Corner, port: int) -> None:
    _, _, body = (await once(port, questions(corner)["page"][0])).partition(b"\r\n\r\n")
    sizes: list[int] = []
    while not sizes or sizes[-1]:
        line, _, rest = body.partition(b"\r\n")
        sizes.append(int(line, 16))
        body = rest[sizes[-1] + 2 :]
    assert body == b""
    assert len(sizes) > 3
    assert all(256 * 1024 <= size < 300 * 1024 for size in sizes[:-2])


async def test_one_connection_carries_many_requests(corner: Corner, relay: Relay, port: int) -> None:
    asked = [question for question, _, _ in questions(corner).values()]
    line = await dial(port)
    first = [await line.ask(question) for question in asked]
    assert len(set(first)) == len(asked)
    assert [await line.ask(question) for question in asked] == first
    line.writer.close()
    assert relay.asked() == len(asked)


async def test_a_request_may_come_in_pieces(corner: Corner, relay: Relay, port: int) -> None:
    asked = questions(corner)["page"][0]
    head, end, body = asked.partition(b"\r\n\r\n")
    answer = await once(port, head[:10], head[10:], end, body[:5], body[5:])
    assert answer == bytes(relay.answers)
    assert await once(port, asked) == answer
    assert await once(port, head, end + body) == answer
    assert relay.asked() == 1


async def test_clients_at_the_same_moment_share_one_request(corner: Corner, relay: Relay, port: int) -> None:
    asked = questions(corner)["page"][0]
    answers = await asyncio.gather(*(once(port, asked) for _ in range(8)))
    assert set(answers) == {bytes(relay.answers)}
    assert relay.asked() == 1


async def test_headers_without_a_say_do_not_ask_again_and_others_do(corner: Corner, relay: Relay, port: int) -> None:
    target = f"/{corner.index}/_search"
    first = await once(port, request("POST", target, _PAGE, **_PLAIN, traceparent="1"))
    assert await once(port, request("POST", target, _PAGE, **_PLAIN, traceparent="2")) == first
    assert relay.asked() == 1
    typed = await once(port, request("POST", target, _PAGE, accept=_TYPED, **{"content-type": _TYPED}))
    assert b"vnd.elasticsearch+json" in typed
    assert relay.asked() == 2
    await once(port, request("POST", target, _PAGE | {"size": 3}, **_PLAIN))
    assert relay.asked() == 3


async def test_while_the_engine_is_away_only_what_is_stored_is_answered(
    corner: Corner, relay: Relay, port: int
) -> None:
    stored, other = questions(corner)["count"][0], questions(corner)["document"][0]
    answer = await once(port, stored)
    await relay.close()
    assert await once(port, stored) == answer
    assert (await once(port, other)).startswith(b"HTTP/1.1 502 ")
    await relay.open()
    assert (await once(port, other)).startswith(b"HTTP/1.1 200 ")


async def test_a_body_without_a_length_is_refused(port: int) -> None:
    chunked = b"POST /_search HTTP/1.1\r\nhost: engine\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert (await once(port, chunked)).startswith(b"HTTP/1.1 411 ")


async def test_an_answer_to_head_has_no_body(corner: Corner, relay: Relay, port: int) -> None:
    line = await dial(port)
    asked = request("HEAD", f"/{corner.index}")
    for _ in range(2):
        line.writer.write(asked)
        assert (await line.head()).startswith(b"HTTP/1.1 200 ")
    line.writer.close()
    assert relay.asked() == 1


async def test_our_service_answers_the_same_over_it(corner: Corner, relay: Relay, port: int) -> None:
    connection = replace(corner.connection, url=(f"http://127.0.0.1:{port}",))
    parameters = {"platform_company_id": COMPANY, "market_status": "all", "updated_since": "1"}
    async with TestClient(TestServer(create_app(ServiceSettings(), connection))) as http:
        for _ in range(3):
            async with http.get("/v1/listings", params=parameters, headers={"x-api-key": corner.key}) as response:
                assert orjson.loads(await response.read()) == await corner.ours("/listings", **parameters)
    searches = re.findall(rb"POST /%b/_search" % corner.index.encode(), bytes(relay.requests))
    assert len(searches) == 1


async def test_a_request_seen_before_is_found_by_its_bytes_alone(corner: Corner, relay: Relay) -> None:
    replay = Replay(relay.url)
    server = await listen(replay, 0)
    asked = questions(corner)["page"][0]
    answer = await once(server.sockets[0].getsockname()[1], asked)
    assert replay.exact == {asked: answer}
    server.close()


@pytest.mark.parametrize("upstream", ["https://engine:9200", "engine:9200", "http://"])
def test_an_upstream_that_is_no_plain_address_is_refused(upstream: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        Replay(upstream)
