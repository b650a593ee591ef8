"""Requests and replies of a scripted server, for tests whose subject is not the framing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson
from multidict import CIMultiDict

from tests.network.server import Connection, Script


@dataclass(frozen=True)
class Request:
    """A complete request."""

    connection: Connection
    method: str
    target: str  # as it was sent
    headers: CIMultiDict[str]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        """The decoded query parameters."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def json(self) -> Any:
        """Return the parsed body, None where it is empty."""
        return orjson.loads(self.body or b"null")


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A response; `delay` is in seconds."""

    status: int = 200
    body: bytes = b"{}"
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0

    async def send(self, request: Request) -> None:
        await asyncio.sleep(self.delay)
        body = b"" if request.method == "HEAD" else self.body
        await request.connection.send(self.head(**{"Content-Length": str(len(self.body))}) + body)

    def head(self, **framing: str) -> bytes:
        """Return the encoded status line and headers."""
        headers = {"Content-Type": self.content_type} if self.content_type else {}
        headers = {**headers, **self.headers, **framing}
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode()


Handler = Callable[["Request"], Awaitable["Reply"]]


class HangUp(Reply):
    """No response: the connection closes."""

    async def send(self, request: Request) -> None:
        """Close the connection."""
        request.connection.writer.close()


HANG_UP = HangUp()


class CutReply(Reply):
    """A response whose connection closes in the middle of its body."""

    async def send(self, request: Request) -> None:
        """Send the head and half of the body."""
        head = self.head(**{"Content-Length": str(len(self.body))})
        await request.connection.send(head + self.body[: len(self.body) // 2])
        request.connection.writer.close()


def http(handler: Handler) -> Script:
    """Return a script that answers each request by a handler, which is cancelled when the client leaves."""

    async def script(connection: Connection) -> None:
        following = asyncio.ensure_future(connection.read())
        try:
            while not connection.writer.is_closing():
                request = parse(connection, await following)
                following = asyncio.ensure_future(connection.read())
                await _reply(handler, request, following)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    return script


async def _reply(handler: Handler, request: Request, following: asyncio.Future[bytes]) -> None:
    async def respond() -> None:
        await (await handler(request)).send(request)

    replying = asyncio.ensure_future(respond())
    try:
        waited: set[asyncio.Future[Any]] = {following, replying}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        # A client that has left ends the wait for its next request.
        if not (following.done() and following.exception()):
            await replying
    finally:
        replying.cancel()
        await asyncio.gather(replying, return_exceptions=True)


def parse(connection: Connection, raw: bytes) -> Request:
    """Return a request from its bytes."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = CIMultiDict((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
    return Request(connection, method, target, headers, body)
