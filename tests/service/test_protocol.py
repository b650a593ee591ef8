"""What the HTTP layer cannot parse, sent over a raw connection to the runner that serves."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.protocol import ServiceRunner
from service.settings import ServiceSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CANARY = "bk_0000000000_Canary"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of a running service that has no engine behind it."""
    settings = ServiceSettings()
    runner = ServiceRunner(create_app(settings, ConnectionSettings(url=("http://127.0.0.1:9",))), settings)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


async def _answer(port: int, sent: bytes) -> tuple[bytes, dict[str, str], bytes]:
    """Return status line, headers and body of the one answer that comes before the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    head, _, body = (await asyncio.wait_for(reader.read(), 10)).partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = dict(line.decode().lower().split(": ", 1) for line in lines)
    assert len(body) == int(headers["content-length"])
    writer.close()
    await writer.wait_closed()
    return first, headers, body


BROKEN = {
    "no HTTP at all": b"hello, here is " + CANARY.encode() + b"\r\n\r\n",
    "an invented version": f"GET /v1/companies?api-key={CANARY} HTTP/9.9\r\n\r\n".encode(),
    "a raw byte in the path": f"GET /v1/\xff?api-key={CANARY} HTTP/1.1\r\nHost: x\r\n\r\n".encode("latin-1"),
    "a header without a name": f"GET /v1/companies HTTP/1.1\r\n: {CANARY}\r\n\r\n".encode(),
    "a line beyond all bounds": b"GET /v1/companies?api-key="
    + CANARY.encode()
    + b"&x="
    + b"y" * 70_000
    + b" HTTP/1.1\r\n\r\n",
    "two lengths": f"GET /v1/{CANARY} HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx".encode(),
}


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
async def test_a_request_that_is_no_http_gets_a_problem_that_repeats_nothing(
    port: int, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    status, headers, body = await _answer(port, sent)
    problem = json.loads(body)
    assert status.split()[1] == b"400"
    assert headers["content-type"] == "application/problem+json"
    assert problem["code"] == "malformed-request"
    assert problem["request_id"] == headers["x-request-id"]
    assert problem["request_id"] in caplog.text
    assert CANARY not in body.decode() + str(headers) + caplog.text


async def test_a_url_of_nine_kilobytes_reaches_the_service_and_is_too_long(port: int) -> None:
    status, _, body = await _answer(
        port, b"GET /v1/companies?x=" + b"y" * 9000 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    assert status.split()[1] == b"414"
    assert json.loads(body)["code"] == "url-too-long"


async def test_a_good_request_is_served_by_the_same_connection_handler(port: int) -> None:
    status, _, body = await _answer(port, b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (status.split()[1], json.loads(body)) == (b"200", {"status": "ok"})


async def test_a_misspelt_connection_option_fails_the_start(caplog: pytest.LogCaptureFixture) -> None:
    settings = ServiceSettings()
    runner = ServiceRunner(create_app(settings, ConnectionSettings(url=("http://127.0.0.1:9",))), settings)
    runner._kwargs["max_lime_size"] = 1
    await runner.setup()
    assert runner.server is not None
    with pytest.raises(TypeError, match="max_lime_size"):
        runner.server()
    await runner.cleanup()
    assert "falling back" not in caplog.text
