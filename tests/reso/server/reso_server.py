"""A stateful RESO Web API server over HTTP, whose data changes by Python methods while it is being read."""

from __future__ import annotations

import asyncio
import gzip
import math
from email.utils import formatdate
from time import time
from typing import TYPE_CHECKING

from aiohttp import web

from tests.reso.server.auth import Auth
from tests.reso.server.error_responses import ODataError, ServerResponse, html_page
from tests.reso.server.fault_injection import FaultInjector
from tests.reso.server.request_log import LoggedRequest, RequestLog
from tests.reso.server.responses import ResponseBuilder, ServerRequest, resource_of, with_etag
from tests.reso.server.server_settings import ServerFault, ServerSettings
from tests.reso.server.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

_HOST = "127.0.0.1"
# Slow responses may be in flight when the server stops; they are dropped.
_SHUTDOWN_SECONDS = 0.1


class ResoServer(Store):
    """The data (see Store), and `faults`, `auth`, `ledger` of its public face.

    `on_request` is called in the server's thread with each request before anything is looked up for it: what it
    changes is what the request finds.
    """

    def __init__(self, settings: ServerSettings | None = None) -> None:
        """Begin without data; `tests.reso.server.running` starts it."""
        super().__init__(settings or ServerSettings())
        self.faults, self.auth, self.ledger = (
            FaultInjector(self.settings),
            Auth(self.settings),
            RequestLog(self.settings),
        )
        self.on_request: Callable[[LoggedRequest], None] | None = None
        self.failures: list[Exception] = []  # of the server itself and of `on_request`: raised when serving ends
        self._answers = ResponseBuilder(self)
        self._port = self.settings.port
        self.loop: asyncio.AbstractEventLoop  # of the last start
        self._runner: web.AppRunner

    @property
    def url(self) -> str:
        """The root behind which the resources are, without a slash at its end."""
        return f"{self._origin}{self.settings.root_path}"

    @property
    def token_url(self) -> str:
        """Where a client fetches its tokens."""
        return f"{self._origin}/oauth/token"

    @property
    def _origin(self) -> str:
        return f"http://{_HOST}:{self._port}"

    @property
    def violations(self) -> int:
        """How many requests came above the rate limit."""
        return self.ledger.violations

    async def start(self) -> None:
        """Listen; after a stop on the port of before."""
        self.loop = asyncio.get_running_loop()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, self._port).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening and cut requests in flight; raise what went wrong inside."""
        await self._runner.cleanup()
        if self.failures:
            raise self.failures.pop()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = self._asked(request)
        visit = self.ledger.begin(request.method, request.raw_path, resource_of(asked.path), asked.prefer)
        try:
            if self.on_request is not None:
                self.on_request(visit)
            answer = await self._answer(request, asked, visit)
        except ODataError as problem:
            answer = problem.response()
        except Exception as error:
            self.failures.append(error)
            raise
        return await self._send(request, with_etag(answer, request.headers.get("If-None-Match", "")), visit)

    def _asked(self, request: web.Request) -> ServerRequest:
        path, _, query = request.raw_path.partition("?")
        below = path.removeprefix(self.settings.root_path) if path != "/oauth/token" else path
        root = f"{request.scheme}://{request.host}{self.settings.root_path}"
        if not path.startswith((self.settings.root_path, "/oauth/token")):
            below = "/nothing is here"
        return ServerRequest(root, request.method, below, query, request.headers.get("Prefer", ""))

    async def _answer(self, request: web.Request, asked: ServerRequest, visit: LoggedRequest) -> ServerResponse:
        self.events.request()
        if (limit := self.ledger.exceeded()) is not None:
            return _too_many(str(math.ceil(limit.seconds)) if self.settings.dialect.says_retry_after else "")
        if self.settings.dialect.requires_gzip and "gzip" not in request.headers.get("Accept-Encoding", ""):
            raise ODataError(400, "40000", "COMPRESSION REQUIRED", "Accept-Encoding")
        collection = asked.path.removeprefix("/").removesuffix("/replication")
        is_collection = asked.method == "GET" and collection in self.entities
        visit.fault = self.faults.next_fault(visit.resource, is_collection=is_collection)
        if (failed := self._failed(visit.fault)) is not None:
            return failed
        if visit.fault is ServerFault.SLOW:
            await asyncio.sleep(self.settings.slow_seconds)
        authorization = request.headers.get("Authorization", "")
        if asked.path == "/oauth/token" and asked.method == "POST":
            return self.auth.issue(await request.text(), authorization)
        self.auth.check(authorization)
        return self._answers.respond(asked, visit, visit.fault)

    def _failed(self, fault: ServerFault | None) -> ServerResponse | None:
        wait = self.settings.retry_after_seconds
        if fault is ServerFault.TOO_MANY:
            return _too_many(str(wait))
        if fault is ServerFault.TOO_MANY_DATE:
            return _too_many(formatdate(time() + wait, usegmt=True))
        if fault is ServerFault.UNAVAILABLE:
            unavailable = html_page(503, "Service Unavailable")
            return ServerResponse(503, unavailable.body, unavailable.headers | {"Retry-After": str(wait)})
        if fault is ServerFault.BROKEN:
            return ODataError(500, "50000", "Internal error").response()
        return html_page(200, "Down for maintenance") if fault is ServerFault.HTML else None

    async def _send(self, request: web.Request, answer: ServerResponse, visit: LoggedRequest) -> web.StreamResponse:
        body, headers = answer.body, dict(answer.headers)
        if self.settings.compresses and "gzip" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = gzip.compress(body, compresslevel=1), "gzip"
        if visit.fault is ServerFault.TRUNCATED:
            body = body[: len(body) // 2]
        visit.status, visit.bytes = answer.status, len(body)
        self.ledger.sent(len(body))
        if visit.fault is ServerFault.CUT:
            return await _cut(request, web.StreamResponse(status=answer.status, headers=headers), body)
        return web.Response(status=answer.status, headers=headers, body=body)


async def _cut(request: web.Request, response: web.StreamResponse, body: bytes) -> web.StreamResponse:
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()  # behind what is written already
    return response


def _too_many(retry_after: str) -> ServerResponse:
    problem = ODataError(429, "42900", "Too many requests")
    if retry_after:
        problem.headers["Retry-After"] = retry_after
    return problem.response()
