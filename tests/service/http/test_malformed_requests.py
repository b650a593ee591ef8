"""Unparsable requests, sent over a raw connection to the service's runner."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.http.connection import ServiceRunner
from service.settings import ServiceSettings
from tests.internals import Internals
from tests.loops import Run, run
from tests.service.raw_http import RawResponse, exchange, exchange_one, listening, serve_raw

__all__ = ["run"]

CANARY = "bk_0000000000_Canary"
CLOSE = "Connection: close\r\n"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of a running service without an Elasticsearch."""
    async with serve_raw("http://127.0.0.1:9") as port:
        yield port


def _get(headers: str = "", line: str = f"GET /livez?api-key={CANARY} HTTP/1.1", body: str = "") -> bytes:
    return f"{line}\r\nHost: x\r\n{headers}\r\n{body}".encode("latin-1")


BROKEN = {
    "no HTTP at all": b"hello, here is " + CANARY.encode() + b"\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + CANARY.encode() + b"\r\n\r\n",
    "an invented method": _get(line=f"{CANARY} /livez HTTP/1.1"),
    "a method in small letters": _get(line=f"get /{CANARY} HTTP/1.1"),
    "the preface of HTTP/2": f"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{CANARY}".encode(),
    "an invented version": _get(line=f"GET /v1/companies?api-key={CANARY} HTTP/9.9"),
    "HTTP/2 in text": _get(line=f"GET /v1/companies?api-key={CANARY} HTTP/2.0"),
    "HTTP/0.9": _get(line=f"GET /v1/companies?api-key={CANARY} HTTP/0.9"),
    "no version": f"GET /v1/companies?api-key={CANARY}\r\n\r\n".encode(),
    "no host": f"GET /livez HTTP/1.1\r\nX: {CANARY}\r\n\r\n".encode(),
    "two hosts": _get(f"Host: {CANARY}\r\n"),
    "no target": _get(line=f"GET  HTTP/1.1\r\nx-api-key: {CANARY}"),
    "a target that is not a path": _get(line=f"GET {CANARY} HTTP/1.1"),
    "a port beyond all": _get(line=f"GET http://x:99999/livez?api-key={CANARY} HTTP/1.1"),
    "a raw byte in the path": _get(line=f"GET /v1/\xff?api-key={CANARY} HTTP/1.1"),
    "a NUL in the path": _get(line=f"GET /v1/\0?api-key={CANARY} HTTP/1.1"),
    "a tab in the query": _get(line=f"GET /v1/companies?api-key={CANARY}&a=\tb HTTP/1.1"),
    "a control character in the query": _get(line=f"GET /v1/companies?api-key={CANARY}&a=\x01 HTTP/1.1"),
    "a header without a name": _get(f": {CANARY}\r\n"),
    "a header without a colon": _get(f"{CANARY}\r\n"),
    "a space before the colon": _get(f"x-api-key : {CANARY}\r\n"),
    "a folded header": _get(f"X: y\r\n {CANARY}\r\n"),
    "a NUL in a header": _get(f"X: y\0{CANARY}\r\n"),
    "a lone CR in a header": _get(f"X: y\r{CANARY}\r\n"),
    "lone LFs": f"GET /livez?api-key={CANARY} HTTP/1.1\nHost: x\n\n".encode(),
    "a lone LF behind a header": _get(f"X: {CANARY}\n"),
    "a header of old websockets": _get(f"Sec-WebSocket-Key1: {CANARY}\r\n"),
    "two lengths": _get("Content-Length: 1\r\nContent-Length: 2\r\n", body="x"),
    "the same length twice": _get("Content-Length: 1\r\nContent-Length: 1\r\n", body="x"),
    "a list of lengths": _get("Content-Length: 1, 1\r\n", body="x"),
    "a signed length": _get("Content-Length: +1\r\n", body="x"),
    "a negative length": _get("Content-Length: -1\r\n", body="x"),
    "a length beyond all": _get(f"Content-Length: {'9' * 30}\r\n", body=CANARY),
    "a length and chunks": _get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", body=f"0\r\n\r\n{CANARY}"),
    "chunks and a length": _get("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", body=f"0\r\n\r\n{CANARY}"),
    "a bad chunk": _get("Transfer-Encoding: chunked\r\n", body=f"zz\r\n{CANARY}\r\n0\r\n\r\n"),
    "an invented transfer coding": _get(f"Transfer-Encoding: x{CANARY}\r\n"),
    "chunked before the last coding": _get("Transfer-Encoding: chunked, identity\r\n", body="0\r\n\r\n"),
}
LARGE = {
    "a line beyond all bounds": (414, _get(line=f"GET /v1/companies?api-key={CANARY}&x={'y' * 70_000} HTTP/1.1")),
    "too many headers": (431, _get("".join(f"X{n}: {CANARY}\r\n" for n in range(64)))),
    "a long header": (431, _get(f"X: {CANARY * 500}\r\n")),
    "a long name of a header": (431, _get(f"{CANARY * 500}: x\r\n")),
}
CODES = {400: "malformed-request", 414: "url-too-long", 431: "headers-too-large"}


@pytest.mark.parametrize(
    ("status", "sent"), [*((400, sent) for sent in BROKEN.values()), *LARGE.values()], ids=[*BROKEN, *LARGE]
)
async def test_an_invalid_http_request_gets_a_problem_that_repeats_nothing(
    port: int, status: int, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    answer = await exchange_one(port, sent)
    problem = json.loads(answer.body)
    assert (answer.status, problem["status"], problem["code"]) == (status, status, CODES[status])
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Connection"] == "close"
    assert "Server" not in answer.headers
    assert problem["request_id"] == answer.headers["X-Request-Id"]
    assert problem["request_id"] in caplog.text
    assert CANARY not in answer.body.decode() + str(answer.headers) + caplog.text


# Mistakes of clients that escape nothing, and what the answer says to do.
MISTAKES = {
    "a raw space in the query": (_get(line=f"GET /v1/listings?api-key={CANARY}&city=San Jose HTTP/1.1"), "as %20"),
    "a raw space in the path": (_get(line=f"GET /v1/agents/{CANARY} x HTTP/1.1"), "as %20"),
    "raw UTF-8 in the query": (
        f"GET /v1/listings?api-key={CANARY}&city=Z\u00fcrich HTTP/1.1\r\n\r\n".encode(),
        "encode",
    ),
    "raw UTF-8 in the path": (f"GET /v1/agents/{CANARY}\u00fc HTTP/1.1\r\n\r\n".encode(), "percent-encode"),
    "a fragment": (_get(CLOSE, line=f"GET /livez?api-key={CANARY}#top HTTP/1.1"), "as %23"),
    "no Host": (BROKEN["no host"], "Send a Host header"),
    "two Hosts": (BROKEN["two hosts"], "Send one Host header"),
    "HTTP/2 in text": (BROKEN["HTTP/2 in text"], "Send HTTP/1.1"),
}


@pytest.mark.parametrize(("sent", "advice"), MISTAKES.values(), ids=MISTAKES)
async def test_a_request_that_is_not_http_says_what_to_do(port: int, sent: bytes, advice: str) -> None:
    answer = await exchange_one(port, sent)
    problem = json.loads(answer.body)
    assert (answer.status, problem["code"]) == (400, "malformed-request")
    assert advice in problem["detail"]
    assert problem["messages"] == [problem["detail"]]
    assert CANARY not in answer.body.decode()


@pytest.mark.parametrize("expected", [CANARY, "100-continue, x", "", "100-continue\r\nExpect: 100-continue"])
async def test_an_expectation_that_cannot_be_met_is_refused_with_the_one_that_can(port: int, expected: str) -> None:
    answer = await exchange_one(port, _get(f"Expect: {expected}\r\n{CLOSE}", line="GET /livez HTTP/1.1"))
    problem = json.loads(answer.body)
    assert (answer.status, problem["status"], problem["code"]) == (417, 417, "refused")
    assert "100-continue" in problem["detail"]
    assert CANARY not in answer.body.decode()


@pytest.mark.parametrize("pieces", [1, 2, 3])
async def test_a_broken_request_in_pieces_is_answered_the_same(port: int, pieces: int) -> None:
    sent = BROKEN["a lone CR in a header"]
    step = -(-len(sent) // pieces)
    answer = await exchange_one(port, *(sent[at : at + step] for at in range(0, len(sent), step)))
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "malformed-request")


async def test_sixty_four_headers_are_taken(port: int) -> None:
    headers = "".join(f"X{n}: y\r\n" for n in range(62)) + "Connection: close\r\n"
    assert (await exchange_one(port, _get(headers))).status == 200


BODIES = {
    "a length": _get("Content-Length: 5\r\n", body="hello"),
    "a length without its body": _get("Content-Length: 5\r\n"),
    "chunks": _get("Transfer-Encoding: chunked\r\n", body="5\r\nhello\r\n0\r\n\r\n"),
    "no chunk": _get("Transfer-Encoding: chunked\r\n", body="0\r\n\r\n"),
    "a packed body": _get("Content-Encoding: gzip\r\nContent-Length: 5\r\n", body="hello"),
    "an expectation": _get("Expect: 100-continue\r\nContent-Length: 5\r\n"),
    "HEAD": _get("Content-Length: 5\r\n", line="HEAD /livez HTTP/1.1", body="hello"),
    "OPTIONS": _get("Content-Length: 5\r\n", line="OPTIONS /livez HTTP/1.1", body="hello"),
    "an unknown path": _get("Content-Length: 5\r\n", line="GET /nothing HTTP/1.1", body="hello"),
}


@pytest.mark.parametrize("sent", BODIES.values(), ids=BODIES)
async def test_a_body_where_none_is_taken_is_refused_unread(
    port: int, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await exchange_one(port, sent)
    assert (answer.status, answer.headers["Connection"]) == (400, "close")
    assert sent.startswith(b"HEAD") or json.loads(answer.body)["code"] == "body-refused"
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "CONNECT"])
async def test_another_method_is_refused_without_waiting_for_its_body(port: int, method: str) -> None:
    answer = await exchange_one(
        port, _get("Content-Length: 500000\r\n", line=f"{method} /livez HTTP/1.1", body="hello")
    )
    assert answer.status in {404, 405}
    assert answer.headers["Connection"] == "close"


async def test_a_length_of_zero_is_not_a_body(port: int) -> None:
    assert (await exchange_one(port, _get("Content-Length: 0\r\nConnection: close\r\n"))).status == 200


SMUGGLED = "GET /readyz HTTP/1.1\r\nHost: smuggled\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        _get(f"Content-Length: {len(SMUGGLED)}\r\n", body=SMUGGLED + SMUGGLED),
        _get("Content-Length: 1\r\n", body="x" + SMUGGLED),
        _get("Transfer-Encoding: chunked\r\n", body="0\r\n\r\n" + SMUGGLED),
        _get("Transfer-Encoding: chunked\r\n", body="5\r\nhello\r\n0\r\n\r\n" + SMUGGLED),
        _get("Transfer-Encoding: chunked\r\n", body="zz\r\n" + SMUGGLED),
        _get("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", body="0\r\n\r\n" + SMUGGLED),
        _get("Transfer-Encoding: chunked\r\n", line="POST /livez HTTP/1.1", body="0\r\n\r\n" + SMUGGLED),
        _get("Content-Length: 0\r\nContent-Length: 4\r\n", body=SMUGGLED),
    ],
    ids=range(8),
)
async def test_nothing_behind_a_body_is_taken_for_a_request(port: int, sent: bytes) -> None:
    for pieces in ([sent], [sent[:-20], sent[-20:]]):
        assert [answer.status // 100 for answer in await exchange(port, *pieces)] == [4]


async def test_requests_without_bodies_may_follow_each_other(port: int) -> None:
    last = _get(CLOSE)
    assert [answer.status for answer in await exchange(port, _get() * 3 + last)] == [200] * 4


@pytest.mark.parametrize(("path", "status"), [("/livez", 200), ("/nothing", 404)])
async def test_the_expectation_to_continue_is_passed_over(port: int, path: str, status: int) -> None:
    for expected in ("100-continue", "100-Continue"):
        sent = _get(f"Expect: {expected}\r\nConnection: close\r\n", line=f"GET {path} HTTP/1.1")
        assert [answer.status for answer in await exchange(port, sent)] == [status]


PARTIAL: list[tuple[int, list[bytes]]] = [
    (0, [b"GET /li"]),
    (0, [_get()[:-2]]),
    (0, [b"\r\n"]),
    (0, [b"\r\n\r\n"]),
    (1, [_get() + b"\r\n", b"GET /livez HT"]),
    (1, [_get() + b"GET /livez HT"]),
    (2, [_get()[:-2], b"\r\n" + _get(), b"G"]),
]


@pytest.mark.parametrize(("count", "sent"), PARTIAL)
async def test_a_partial_request_times_out(port: int, count: int, sent: list[bytes], internals: Internals) -> None:
    answers: list[RawResponse] = []
    # On a busy machine the first time may pass between two pieces of a whole request.
    for seconds in (0.1, 1.0, 10.0):
        internals(head_timeout=seconds)
        answers = await exchange(port, *sent)
        if len(answers) >= count:
            break
    assert [answer.status for answer in answers] == [200] * count


def test_a_partial_request_that_comes_with_its_connection_times_out(run: Run, internals: Internals) -> None:
    internals(head_timeout=0.1)

    async def scenario() -> bytes:
        async with serve_raw("http://127.0.0.1:9") as port:
            # Before the event loop accepts it.
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"GET /li")
                client.setblocking(False)
                async with asyncio.timeout(30):
                    return await asyncio.get_running_loop().sock_recv(client, 1)

    assert run(scenario()) == b""


def test_a_request_that_takes_longer_than_its_head_may_is_answered(run: Run, internals: Internals) -> None:
    internals(head_timeout=0.02)

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.3)
        return web.Response(body=b"done")

    async def scenario() -> list[int]:
        app = web.Application()
        app.router.add_get("/slow", slow)
        async with listening(app, ServiceSettings()) as port:
            # The head that follows is never complete.
            answers = await exchange(port, _get(line="GET /slow HTTP/1.1") + b"GET /sl")
        return [answer.status for answer in answers]

    assert run(scenario()) == [200]


async def test_a_request_that_comes_in_pieces_is_answered(port: int, internals: Internals) -> None:
    internals(head_timeout=1.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        for piece in (_get()[:20], _get()[20:]):
            writer.write(piece)
            await asyncio.sleep(0.02)
        await reader.readuntil(b'{"status": "ok"}')
        # Idle for longer than a head may take to arrive.
        await asyncio.sleep(1.2)
    assert not reader.at_eof()
    writer.close()


async def test_a_url_of_nine_kilobytes_reaches_the_service_and_is_too_long(port: int) -> None:
    answer = await exchange_one(port, _get(CLOSE, line=f"GET /v1/companies?x={'y' * 9000} HTTP/1.1"))
    assert (answer.status, json.loads(answer.body)["code"]) == (414, "url-too-long")
    assert "9016 bytes" in json.loads(answer.body)["detail"]


async def test_a_good_request_is_served_by_the_same_connection_handler(port: int) -> None:
    answer = await exchange_one(port, _get(CLOSE))
    assert (answer.status, json.loads(answer.body)) == (200, {"status": "ok"})


async def test_metrics_are_served_with_the_same_care() -> None:
    async with serve_raw("http://127.0.0.1:9", of_metrics=True, metrics_allowed_hosts=("x",)) as port:
        for path, status in (("/metrics", 200), (f"/{CANARY}", 404)):
            answer = await exchange_one(port, _get(CLOSE, line=f"GET {path} HTTP/1.1"))
            assert answer.status == status
            assert "Server" not in answer.headers
            assert answer.headers["Cache-Control"] == "no-store"


async def test_an_unknown_connection_option_fails_the_start(caplog: pytest.LogCaptureFixture) -> None:
    settings = ServiceSettings()
    runner = ServiceRunner(create_app(settings, ConnectionSettings(url=("http://127.0.0.1:9",))), settings)
    runner._kwargs["max_lime_size"] = 1
    with pytest.raises(TypeError, match="max_lime_size"):
        await runner.setup()
    await runner.cleanup()
    assert "falling back" not in caplog.text
