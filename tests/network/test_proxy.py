"""The proxy does what it says; else a scenario would find nothing because nothing was wrong."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.network.cuts import behind_head, between_chunks, in_chunk, in_head
from tests.network.link import Cut
from tests.network.proxy import Proxy
from tests.waiting import until

_CHUNKS = [b"a" * 50, b"b" * 70]
_BODY = b"".join(_CHUNKS)


async def _answer(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    if request.path == "/whole":
        response.content_length = len(_BODY)
    else:
        response.enable_chunked_encoding()
    await response.prepare(request)
    for chunk in _CHUNKS:
        await response.write(chunk)
    return response


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy before a server with two pages of two chunks."""
    app = web.Application()
    app.router.add_get("/{path}", _answer)
    async with TestServer(app) as server, Proxy(str(server.make_url(""))).running() as proxy:
        yield proxy


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps its connections."""
    async with aiohttp.ClientSession() as session:
        yield session


async def _get(session: aiohttp.ClientSession, proxy: Proxy, path: str = "/pieces") -> bytes:
    async with session.get(f"{proxy.url}{path}") as response:
        return await response.read()


async def test_bytes_pass_unchanged_over_one_connection(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    assert [await _get(session, proxy) for _ in range(3)] == [_BODY] * 3
    assert proxy.connections == 1


async def test_an_answer_is_held_back_while_it_is_delayed(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    proxy.to_service.delay = 60.0
    asking = asyncio.create_task(_get(session, proxy))
    await until(lambda: proxy.connections)
    done, _ = await asyncio.wait([asking], timeout=0.2)
    assert not done
    asking.cancel()
    await until(lambda: not proxy.connections)  # who hangs up is heard of at once


async def test_what_is_frozen_passes_once_it_is_healed(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    proxy.freeze()
    asking = asyncio.create_task(_get(session, proxy))
    await until(lambda: proxy.connections)
    done, _ = await asyncio.wait([asking], timeout=0.2)
    assert not done
    await proxy.heal()
    assert await asking == _BODY


async def test_requests_for_a_target_are_held_and_no_others(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    proxy.hold("/whole")
    asking, leaving = (asyncio.create_task(_get(session, proxy, "/whole")) for _ in range(2))
    await until(lambda: proxy.held == 2)
    assert await _get(session, proxy, "/pieces") == _BODY
    leaving.cancel()
    await until(lambda: proxy.held == 1)
    assert not asking.done()
    await proxy.heal()
    assert await asking == _BODY
    assert proxy.held == 0


async def test_open_connections_are_reset(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    await until(lambda: proxy.connections)
    assert proxy.reset(0.0) == 0
    assert proxy.reset() == 1
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_new_connections_are_reset(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    proxy.resets_new = True
    with pytest.raises(aiohttp.ClientConnectionError):
        await _get(session, proxy)
    await proxy.heal()
    assert await _get(session, proxy) == _BODY


async def test_a_refused_connection_is_possible_again_at_the_same_place(
    proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    assert await _get(session, proxy) == _BODY
    proxy.refuse()
    with pytest.raises(aiohttp.ClientConnectionError):
        await _get(session, proxy)
    await proxy.heal()
    assert await _get(session, proxy) == _BODY


@pytest.mark.parametrize("path", ["/pieces", "/whole"])
@pytest.mark.parametrize(
    ("cut", "passes"),
    [
        (in_head, lambda answer: answer.startswith(b"HTTP/1.1 200") and b"\r\n\r\n" not in answer),
        (behind_head, lambda answer: answer.endswith(b"\r\n\r\n")),
        (in_chunk, lambda answer: b"aaa" in answer and not answer.endswith(tuple(_CHUNKS))),
        (between_chunks, lambda answer: answer.endswith((_CHUNKS[0] + b"\r\n", _BODY[:-1]))),
    ],
)
async def test_an_answer_is_cut_where_it_should_be(proxy: Proxy, path: str, cut: Cut, passes: Cut) -> None:
    proxy.cutting = lambda: cut
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    writer.write(f"GET {path} HTTP/1.1\r\nhost: here\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert passes(answer)
    await until(lambda: proxy.cuts == 1)
