"""A proxy in front of Elasticsearch that understands requests, and breaks bulk requests, chosen ones or at random."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from tests.network.http import HANG_UP, CutReply, Reply, Request, http
from tests.network.server import serving

_FORWARDED = {"content-type", "accept", "x-opaque-id"}
_PRODUCT = "x-elastic-product"
_TYPE = "application/vnd.elasticsearch+json;compatible-with=9"
_RETRYABLE = (429, 503)
POISON = b"POISON"
REASON = "made 400"  # of the refusal of poison


class RequestProxy:
    """Forwards every request; subclasses answer some by themselves."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._session: aiohttp.ClientSession

    async def reply(self, request: Request) -> Reply:
        """Return the response to a request."""
        return await self.forward(request)

    async def forward(self, request: Request, body: bytes | None = None) -> Reply:
        """Return the response of the node to a request, or to one with another body."""
        headers = {name: value for name, value in request.headers.items() if name.lower() in _FORWARDED}
        sent, address = request.body if body is None else body, f"{self._target}{request.target}"
        async with self._session.request(request.method, address, data=sent, headers=headers) as response:
            kind = response.headers.get("content-type", "")
            product = {name: value for name, value in response.headers.items() if name.lower() == _PRODUCT}
            return Reply(status=response.status, body=await response.read(), content_type=kind, headers=product)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve, and return the address."""
        async with aiohttp.ClientSession() as self._session, serving(http(self.reply)) as server:
            yield server.url


class BulkProxy(RequestProxy):
    """Each bulk request uses up one of `faults` while there are any."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.faults: list[Fault] = []
        self.bulks = 0
        self.requests: list[tuple[int, bool]] = []  # of each bulk the number of documents, and whether all were taken
        self.marks: set[str | None] = set()  # the X-Opaque-Id of each bulk

    async def reply(self, request: Request) -> Reply:
        """Forward a request, or break it."""
        if not request.path.endswith("/_bulk"):
            return await self.forward(request)
        self.bulks += 1
        self.marks.add(request.headers.get("x-opaque-id"))
        fault = self.faults.pop(0) if self.faults else BulkProxy.forward
        reply: Reply = await fault(self, request)
        self.requests.append((documents(request), reply.status == 200 and b'"errors":false' in reply.body))
        return reply

    async def write(self, request: Request, statuses: Sequence[int]) -> Reply:
        """Write the documents with the status 200, and refuse the others with theirs."""
        sent = b"".join(pair for pair, status in zip(pairs(request), statuses, strict=True) if status == 200)
        if len(sent) == len(request.body):
            return await self.forward(request)
        done: list[Any] = []
        if sent:
            reply = await self.forward(request, sent)
            if reply.status != 200:
                return reply
            done = orjson.loads(reply.body)["items"]
        return _items([done.pop(0) if status == 200 else _refusal(status) for status in statuses])


Fault = Callable[["BulkProxy", Request], Any]


def pairs(request: Request) -> list[bytes]:
    """Return the actions of a bulk request, each with its document."""
    lines = request.body.splitlines(keepends=True)
    return [lines[at] + lines[at + 1] for at in range(0, len(lines), 2)]


def documents(request: Request) -> int:
    """Return the number of documents in a bulk request."""
    return request.body.count(b"\n") // 2


def items(*statuses: int) -> Fault:
    """Return a fault that does nothing and answers with a status for each document."""

    async def fault(_proxy: BulkProxy, _request: Request) -> Reply:
        return _items([_refusal(status) for status in statuses])

    return fault


def refused(status: int) -> Fault:
    """Return a fault that refuses a whole request without doing anything."""

    async def fault(_proxy: BulkProxy, _request: Request) -> Reply:
        return _json({"error": {"type": "made_up", "reason": "made up"}, "status": status}, status)

    return fault


async def cut_before(_proxy: BulkProxy, _request: Request) -> Reply:
    """Close the connection before the request has any effect."""
    return HANG_UP


async def cut_behind(proxy: BulkProxy, request: Request) -> Reply:
    """Let the request happen and lose its response."""
    await proxy.forward(request)
    return HANG_UP


async def busy_for_every_other(proxy: BulkProxy, request: Request) -> Reply:
    """Write every other document and answer 429 for the rest."""
    return await proxy.write(request, [(200, 429)[at % 2] for at in range(documents(request))])


async def busy_for_all(proxy: BulkProxy, request: Request) -> Reply:
    """Write nothing and answer 429 for each document."""
    return await proxy.write(request, [429] * documents(request))


class ChaosProxy(BulkProxy):
    """Breaks a share of the bulk requests, repeatably, and always refuses poison.

    With `is_slow` the next one that is broken takes `slow_seconds`, longer than the client waits.
    """

    def __init__(self, target: str, chance: random.Random, *, share_broken: float, slow_seconds: float) -> None:
        super().__init__(target)
        self.broken: dict[str, int] = {}
        self.is_slow = False
        self.late: bytes | None = None  # the first bulk request that holds it arrives late
        self._chance = chance
        self._share_broken = share_broken
        self._slow_seconds = slow_seconds
        self._late: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        """Forward a request, or break it. What is late arrives right before a swap, or before a fence is removed."""
        if request.path.endswith("/_bulk"):
            return await self._bulk(request)
        if request.path.endswith("/_aliases") and (b"must_exist" in request.body or b'"add"' not in request.body):
            late, self._late = self._late, []
            for earlier in late:
                await self._written(earlier)
        return await self.forward(request)

    async def _bulk(self, request: Request) -> Reply:
        if self.late is not None and self.late in request.body:
            self.late = None
            return await self._arrives_late(request)
        if self._chance.random() > self._share_broken:
            return await self._written(request)
        faults = {
            "cut before": self._cut_before,
            "cut behind": self._cut_behind,
            "cut answer": self._cut_answer,
            "late": self._arrives_late,
            "refused": self._refused,
            "mixed": self._mixed,
            "slow": self._slow,
        }
        chosen = "slow" if self.is_slow else self._chance.choice([fault for fault in faults if fault != "slow"])
        self.broken[chosen] = self.broken.get(chosen, 0) + 1
        return await faults[chosen](request)

    async def _cut_before(self, _: Request) -> Reply:
        return HANG_UP

    async def _cut_behind(self, request: Request) -> Reply:
        await self._written(request)
        return HANG_UP

    async def _cut_answer(self, request: Request) -> Reply:
        return CutReply(**vars(await self._written(request)))

    async def _arrives_late(self, request: Request) -> Reply:
        self._late.append(request)
        return HANG_UP

    async def _refused(self, request: Request) -> Reply:
        reply: Reply = await refused(self._chance.choice([429, 502, 503, 504]))(self, request)
        return reply

    async def _mixed(self, request: Request) -> Reply:
        """Write some of the documents and answer for the others that the engine is too busy for them."""
        return await self._written(request, share_refused=self._chance.random())

    async def _slow(self, request: Request) -> Reply:
        self.is_slow = False
        await asyncio.sleep(self._slow_seconds)
        return await self._written(request)

    async def _written(self, request: Request, share_refused: float = 0.0) -> Reply:
        """Write all documents but the poisoned ones and the given share, and respond for every document."""
        statuses = [400 if POISON in pair else self._status(share_refused) for pair in pairs(request)]
        return await self.write(request, statuses)

    def _status(self, share_refused: float) -> int:
        return self._chance.choice(_RETRYABLE) if self._chance.random() < share_refused else 200


def _refusal(status: int) -> dict[str, Any]:
    return {"index": {"status": status, "error": {"type": "made_up", "reason": f"made {status}"}}}


def _items(items: list[Any]) -> Reply:
    return _json({"errors": True, "items": items}, 200)


def _json(value: object, status: int) -> Reply:
    return Reply(status=status, body=orjson.dumps(value), content_type=_TYPE, headers={_PRODUCT: "Elasticsearch"})
