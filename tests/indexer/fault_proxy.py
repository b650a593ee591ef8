"""A proxy before a real node that breaks chosen bulk requests the way networks and busy clusters do."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class FaultProxy:
    """Forwards everything; each bulk request uses up one of `faults` while there are any."""

    def __init__(self, target: str) -> None:
        """Forward to the address of a node."""
        self.faults: list[Callable[[FaultProxy, web.Request, bytes], Any]] = []
        self.bulks = 0
        self.requests: list[tuple[int, bool]] = []  # of each bulk the number of documents, and whether all were taken
        self.marks: set[str | None] = set()  # the X-Opaque-Id of each bulk
        self._target = target
        self._session: aiohttp.ClientSession

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Forward a request, or break it."""
        body = await request.read()
        if request.path.endswith("/_bulk"):
            self.bulks += 1
            self.marks.add(request.headers.get("x-opaque-id"))
            fault = self.faults.pop(0) if self.faults else FaultProxy._forwarded
            answered: web.Response = await fault(self, request, body)
            taken = answered.status == 200 and b'"errors":false' in bytes(answered.body or b"")  # type: ignore[arg-type]
            self.requests.append((documents(body), taken))
            return answered
        return await self.forward(request, body)

    async def _forwarded(self, request: web.Request, body: bytes) -> web.Response:
        return await self.forward(request, body)

    async def forward(self, request: web.Request, body: bytes) -> web.Response:
        """Ask the node."""
        kept = ("content-type", "accept", "x-opaque-id")
        headers = {name: value for name, value in request.headers.items() if name.lower() in kept}
        address = f"{self._target}{request.path_qs}"
        async with self._session.request(request.method, address, data=body, headers=headers) as answer:
            passed = {
                name: answer.headers[name] for name in ("content-type", "x-elastic-product") if name in answer.headers
            }
            return web.Response(status=answer.status, body=await answer.read(), headers=passed)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve, and return the address."""
        application = web.Application(client_max_size=2**30)
        application.router.add_route("*", "/{path:.*}", self.answer)
        async with aiohttp.ClientSession() as self._session, TestServer(application) as server:
            yield str(server.make_url("")).rstrip("/")


def documents(body: bytes) -> int:
    """Return the number of documents in a bulk request."""
    return body.count(b"\n") // 2


def items(*statuses: int) -> Callable[[FaultProxy, web.Request, bytes], Any]:
    """Return a fault that does nothing and answers with a status for each document."""

    async def fault(_proxy: FaultProxy, _request: web.Request, _body: bytes) -> web.Response:
        return _items([{"index": {"status": status, "error": {"reason": f"made {status}"}}} for status in statuses])

    return fault


def refused(status: int) -> Callable[[FaultProxy, web.Request, bytes], Any]:
    """Return a fault that refuses a whole request without doing anything."""

    async def fault(_proxy: FaultProxy, _request: web.Request, _body: bytes) -> web.Response:
        return _json({"error": {"type": "made_up", "reason": "made up"}, "status": status}, status)

    return fault


async def cut_before(_proxy: FaultProxy, request: web.Request, _body: bytes) -> web.Response:
    """Close the connection before the request has any effect."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def cut_behind(proxy: FaultProxy, request: web.Request, body: bytes) -> web.Response:
    """Let the request happen and lose its answer."""
    await proxy.forward(request, body)
    return await cut_before(proxy, request, body)


async def busy_for_every_other(proxy: FaultProxy, request: web.Request, body: bytes) -> web.Response:
    """Write every other document and answer 429 for the rest."""
    lines = body.splitlines(keepends=True)
    pairs = [b"".join(lines[at : at + 2]) for at in range(0, len(lines), 2)]
    done = json.loads((await proxy.forward(request, b"".join(pairs[::2]))).text or "")["items"]
    return _items([done.pop(0) if number % 2 == 0 else _BUSY for number in range(len(pairs))])


async def busy_for_all(_proxy: FaultProxy, _request: web.Request, body: bytes) -> web.Response:
    """Write nothing and answer 429 for each document."""
    return _items([_BUSY] * documents(body))


_BUSY = {"index": {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "full"}}}


def _items(items: list[Any]) -> web.Response:
    return _json({"errors": True, "items": items}, 200)


def _json(value: object, status: int) -> web.Response:
    headers = {
        "content-type": "application/vnd.elasticsearch+json;compatible-with=9",
        "x-elastic-product": "Elasticsearch",
    }
    return web.Response(status=status, body=json.dumps(value).encode(), headers=headers)
