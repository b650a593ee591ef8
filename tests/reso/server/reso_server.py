"""A stateful RESO Web API server over HTTP, whose data changes by Python methods while it is being read."""

import asyncio
import gzip
import math
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from time import time

from aiohttp import web

from tests.reso.server.error_responses import ODataError, ServerResponse, html_page
from tests.reso.server.request_log import Auth, FaultInjector, LoggedRequest, RequestLog
from tests.reso.server.responses import ResponseBuilder, ServerRequest
from tests.reso.server.server_settings import ServerFault, ServerSettings
from tests.reso.server.store import Store

_HOST = "127.0.0.1"
# Slow responses may be in flight when the server stops; they are dropped.
_SHUTDOWN_SECONDS = 0.1


class ResoServer(Store):
    """The data (see Store), and `faults`, `auth`, `ledger` of its public face.

    `on_request` is called in the server's thread with each request before anything is looked up for it: what it
    changes is what the request finds. `rewrite` changes the query of a request, as a server that ignores a part of it.
    """

    def __init__(self, settings: ServerSettings | None = None) -> None:
        """Begin without data; `tests.reso.server.running` starts it."""
        super().__init__(settings or ServerSettings())
        self.faults, self.auth = FaultInjector(self.settings), Auth(self.settings)
        self.ledger, self.answers = RequestLog(self.settings), ResponseBuilder(self)
        self.on_request: Callable[[LoggedRequest], object] | None = None
        self.rewrite: Callable[[str], str] = lambda query: query
        self.failures: list[Exception] = []  # of the server itself and of `on_request`: raised when serving ends
        self._port = 0
        self._runner: web.AppRunner

    @property
    def url(self) -> str:
        """The root behind which the resources are, without a slash at its end."""
        return f"http://{_HOST}:{self._port}{self.settings.root_path}"

    @property
    def token_url(self) -> str:
        return f"http://{_HOST}:{self._port}/oauth/token"

    @property
    def violations(self) -> int:
        return self.ledger.violations

    async def start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, 0).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening and cut requests in flight; raise what went wrong inside."""
        await self._runner.cleanup()
        if self.failures:
            raise self.failures.pop()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = self._asked(request)
        visit = self.ledger.begin(request.raw_path, asked.resource, asked.prefer)
        self.ledger.running += 1
        self.ledger.most_running = max(self.ledger.most_running, self.ledger.running)
        try:
            if self.on_request is not None:
                self.on_request(visit)
            return await self._send(request, await self._answer(request, asked, visit), visit)
        except ODataError as problem:
            return await self._send(request, problem.response(), visit)
        except Exception as error:
            self.failures.append(error)
            raise
        finally:
            self.ledger.running -= 1

    def _asked(self, request: web.Request) -> ServerRequest:
        path, _, query = request.raw_path.partition("?")
        root = self.settings.root_path
        if path != "/oauth/token":
            path = path.removeprefix(root) if path.startswith(root) else "/nothing is here"
        prefer = request.headers.get("Prefer", "")
        return ServerRequest(f"{request.scheme}://{request.host}{root}", path, query, prefer)

    async def _answer(self, request: web.Request, asked: ServerRequest, visit: LoggedRequest) -> ServerResponse:
        self.events.request()
        if (limit := self.ledger.exceeded()) is not None:
            return _too_many(str(math.ceil(limit.seconds)) if self.settings.dialect.says_retry_after else "")
        if self.settings.dialect.requires_gzip and "gzip" not in request.headers.get("Accept-Encoding", ""):
            raise ODataError(400, "40000", "COMPRESSION REQUIRED")
        is_collection = asked.path.removeprefix("/").removesuffix("/replication") in self.entities
        visit.fault = self.faults.next_fault(visit.resource, is_collection=is_collection)
        if (failed := self._failed(visit.fault)) is not None:
            return failed
        if visit.fault is ServerFault.SLOW:
            await asyncio.sleep(self.settings.slow_seconds)
        authorization = request.headers.get("Authorization", "")
        if asked.path == "/oauth/token":
            return self.auth.issue(await request.text(), authorization)
        self.auth.check(authorization)
        return self.answers.respond(replace(asked, query=self.rewrite(asked.query)), visit)

    def _failed(self, fault: ServerFault | None) -> ServerResponse | None:
        wait = self.settings.retry_after_seconds
        if fault is ServerFault.TOO_MANY:
            return _too_many(str(wait))
        if fault is ServerFault.TOO_MANY_DATE:
            return _too_many(formatdate(time() + wait, usegmt=True))
        if fault is ServerFault.UNAVAILABLE:
            return ODataError(503, "50300", "Service Unavailable", {"Retry-After": str(wait)}).response()
        if fault is ServerFault.BROKEN:
            return ODataError(500, "50000", "Internal error").response()
        return html_page(200, "Down for maintenance") if fault is ServerFault.HTML else None

    async def _send(self, request: web.Request, answer: ServerResponse, visit: LoggedRequest) -> web.StreamResponse:
        body, headers = answer.body, dict(answer.headers)
        if self.settings.compresses and "gzip" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = gzip.compress(body, compresslevel=1), "gzip"
        if visit.fault is ServerFault.TRUNCATED:
            body = body[: len(body) // 2]
        visit.bytes = len(body)
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
    headers = {"Retry-After": retry_after} if retry_after else {}
    return ODataError(429, "42900", "Too many requests", headers).response()
