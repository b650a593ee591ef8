"""The load client reads whole answers of real servers, however they are framed and cut."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from bench.client import FramingError, Pool, UnexpectedStatus, get, post
from tests.bench.servers import serving, writing

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Name: value\r\n\r\n5\r\nhello\r\n7;a=b\r\n, world\r\n0\r\n\r\n"
)


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """Connections that are closed afterwards."""
    made = Pool()
    yield made
    made.close()


async def test_a_body_with_a_length_is_read_whole_and_counted(pool: Pool) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 3_000_000)

    async with serving(answer) as url:
        [connection] = await pool.take(url, 1)
        counted = [await connection.fetch(get(url, "/")) for _ in range(3)]
        kept = await connection.fetch(get(url, "/"), keep=True)
    assert [(each.length, each.body) for each in counted] == [(3_000_000, b"")] * 3
    assert kept.body == b"x" * 3_000_000
    assert (kept.status, kept.header("content-type")) == (200, "application/octet-stream")


async def test_a_body_in_chunks_of_a_real_server_is_put_together(pool: Pool) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for number in range(200):
            await response.write(b"%d\r\n" % number * (number + 1))
        await response.write_eof()
        return response

    expected = b"".join(b"%d\r\n" % number * (number + 1) for number in range(200))
    async with serving(answer) as url:
        [connection] = await pool.take(url, 1)
        for _ in range(2):
            kept = await connection.fetch(get(url, "/"), keep=True)
            assert kept.body == expected
            assert kept.length == len(expected)


@pytest.mark.parametrize("at", range(1, len(CHUNKED)))
async def test_chunks_may_be_cut_anywhere(pool: Pool, at: int) -> None:
    async with writing([CHUNKED[:at], CHUNKED[at:]]) as url:
        [connection] = await pool.take(url, 1)
        for _ in range(2):
            answer = await connection.fetch(get(url, "/"), keep=True)
            assert (answer.body, answer.length, answer.header("x-name")) == (b"hello, world", 12, "value")


async def test_another_status_raises_an_error_with_the_body(pool: Pool) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=503, text="not now")

    async with serving(answer) as url:
        [connection] = await pool.take(url, 1)
        with pytest.raises(UnexpectedStatus, match="503: not now"):
            await connection.fetch(get(url, "/"))
        # The answer was read to its end: the connection serves on.
        assert (await connection.ask(get(url, "/"))).status == 503


@pytest.mark.parametrize(
    "part",
    [CHUNKED[:10], CHUNKED[:-30], CHUNKED[:-2], b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"],
)
async def test_an_answer_that_is_cut_raises(pool: Pool, part: bytes) -> None:
    async with writing([part], hang_up=True) as url:
        [connection] = await pool.take(url, 1)
        with pytest.raises(ConnectionResetError):
            await connection.fetch(get(url, "/"))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
        CHUNKED + b"more",
    ],
)
async def test_an_answer_of_another_shape_raises(pool: Pool, answer: bytes) -> None:
    async with writing([answer]) as url:
        [connection] = await pool.take(url, 1)
        with pytest.raises(FramingError):
            await connection.fetch(get(url, "/"))
        assert not connection.is_open


async def test_a_request_carries_its_body_and_asks_for_it_as_it_is(pool: Pool) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response([request.method, request.headers["Accept-Encoding"], await request.text()])

    async with serving(answer) as url:
        [connection] = await pool.take(url, 1)
        posted = await connection.fetch(post(url, "/", b'{"a":1}'), keep=True)
        zipped = await connection.fetch(get(url, "/", {"Accept-Encoding": "gzip"}), keep=True)
    assert posted.body == b'["POST", "identity", "{\\"a\\":1}"]'
    assert zipped.body == b'["GET", "gzip", ""]'


async def test_a_request_that_is_given_up_does_not_leave_its_answer_to_the_next(pool: Pool) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/slow":
            await asyncio.sleep(0.2)
        return web.Response(text=request.path)

    async with serving(answer) as url:
        [connection] = await pool.take(url, 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.fetch(get(url, "/slow")), 0.05)
        [another] = await pool.take(url, 1)
        assert (await another.fetch(get(url, "/fast"), keep=True)).body == b"/fast"


async def test_a_connection_that_the_server_closed_is_replaced(pool: Pool) -> None:
    async def answer(_: web.Request) -> web.Response:
        response = web.Response(text="bye")
        response.force_close()
        return response

    async with serving(answer) as url:
        for _ in range(3):
            [connection] = await pool.take(url, 1)
            await connection.fetch(get(url, "/"))
            await asyncio.sleep(0.05)
