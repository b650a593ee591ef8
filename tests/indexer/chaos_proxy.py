"""A proxy before a real node that breaks bulk requests at random, repeatably, and refuses poison always."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.indexer.fault_proxy import FaultProxy, cut_before, refused

if TYPE_CHECKING:
    import random

POISON = b"POISON"
REASON = "poison"
_PASSING = (429, 503)


class ChaosProxy(FaultProxy):
    """Forwards what is no bulk request; of those it breaks some, each in a way of its own.

    With `is_slow` the next one that is broken takes `slow_seconds`, longer than the client waits.
    """

    def __init__(self, target: str, chance: random.Random, *, share_broken: float, slow_seconds: float) -> None:
        """Break nothing yet."""
        super().__init__(target)
        self.broken: dict[str, int] = {}
        self.is_slow = False
        self.late: bytes | None = None  # the first bulk request that holds it arrives late
        self._chance = chance
        self._share_broken = share_broken
        self._slow_seconds = slow_seconds
        self._late: list[tuple[web.Request, bytes]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Forward a request, or break it. What is late arrives right before a swap, or before a fence is lifted."""
        body = await request.read()
        if request.path.endswith("/_bulk"):
            return await self._bulk(request, body)
        if request.path.endswith("/_aliases") and (b"must_exist" in body or b'"add"' not in body):
            late, self._late = self._late, []
            for earlier, held in late:
                await self._written(earlier, held)
        return await self.forward(request, body)

    async def _bulk(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if self.late is not None and self.late in body:
            self.late = None
            return await self._arrives_late(request, body)
        if self._chance.random() > self._share_broken:
            return await self._written(request, body)
        ways = {
            "cut before": self._cut_before,
            "cut behind": self._cut_behind,
            "cut answer": self._cut_answer,
            "late": self._arrives_late,
            "refused": self._refused,
            "mixed": self._mixed,
            "slow": self._slow,
        }
        way = "slow" if self.is_slow else self._chance.choice([way for way in ways if way != "slow"])
        self.broken[way] = self.broken.get(way, 0) + 1
        return await ways[way](request, body)

    async def _cut_before(self, request: web.Request, body: bytes) -> web.StreamResponse:
        return await cut_before(self, request, body)

    async def _cut_behind(self, request: web.Request, body: bytes) -> web.StreamResponse:
        await self._written(request, body)
        return await cut_before(self, request, body)

    async def _cut_answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Close the connection in the middle of the answer's body."""
        whole = await self._written(request, body)
        text = bytes(whole.body or b"")  # type: ignore[arg-type]
        part = web.StreamResponse(headers={**whole.headers, "content-length": str(len(text))})
        await part.prepare(request)
        await part.write(text[: len(text) // 2])
        return await cut_before(self, request, body)

    async def _arrives_late(self, request: web.Request, body: bytes) -> web.StreamResponse:
        self._late.append((request, body))
        return await cut_before(self, request, body)

    async def _refused(self, request: web.Request, body: bytes) -> web.StreamResponse:
        response: web.StreamResponse = await refused(self._chance.choice([429, 502, 503, 504]))(self, request, body)
        return response

    async def _mixed(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Write some of the documents and answer for the others that the engine is too busy for them."""
        return await self._written(request, body, share_refused=self._chance.random())

    async def _slow(self, request: web.Request, body: bytes) -> web.StreamResponse:
        self.is_slow = False
        await asyncio.sleep(self._slow_seconds)
        return await self._written(request, body)

    async def _written(self, request: web.Request, body: bytes, share_refused: float = 0.0) -> web.Response:
        """Write what is no poison, less the given share of it, and answer for every document."""
        lines = body.splitlines(keepends=True)
        pairs = [lines[at] + lines[at + 1] for at in range(0, len(lines), 2)]
        statuses = [400 if POISON in pair else self._status(share_refused) for pair in pairs]
        sent = b"".join(pair for pair, status in zip(pairs, statuses, strict=True) if status == 200)
        if len(sent) == len(body):
            return await self.forward(request, body)
        done: list[Any] = []
        if sent:
            answer = await self.forward(request, sent)
            if answer.status != 200:
                return answer
            done = json.loads(answer.text or "")["items"]
        items = [done.pop(0) if status == 200 else _item(status) for status in statuses]
        return _answer({"errors": True, "items": items})

    def _status(self, share_refused: float) -> int:
        return self._chance.choice(_PASSING) if self._chance.random() < share_refused else 200


def _item(status: int) -> dict[str, Any]:
    reason = REASON if status == 400 else "busy"
    return {"index": {"status": status, "error": {"type": "made_up", "reason": reason}}}


def _answer(value: object) -> web.Response:
    headers = {
        "content-type": "application/vnd.elasticsearch+json;compatible-with=9",
        "x-elastic-product": "Elasticsearch",
    }
    return web.Response(body=json.dumps(value).encode(), headers=headers)
