"""A stand-in Elasticsearch on a real port: it answers what a test scripts, to inject faults a real node will not."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from aiohttp import web

from mappings.document import document
from service.keys.record import ApiKey
from service.keys.text import mint

if TYPE_CHECKING:
    from collections.abc import Sequence

JSON = "application/json"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What is answered instead of the truth; `delay` is in seconds."""

    status: int = 200
    body: bytes = b"{}"
    content_type: str = JSON
    delay: float = 0.0
    product: str | None = "Elasticsearch"

    async def send(self) -> web.Response:
        """Answer, after the delay, as Elasticsearch would: with its product header."""
        await asyncio.sleep(self.delay)
        headers = {"Content-Type": self.content_type} | ({"X-Elastic-Product": self.product} if self.product else {})
        return web.Response(status=self.status, body=self.body, headers=headers)


def refusal(status: int, kind: str) -> Reply:
    """Return an error answer in the form of Elasticsearch, its root cause of the given type."""
    cause = {"type": kind, "reason": f"scripted {kind} in secret-node-7"}
    return Reply(status=status, body=orjson.dumps({"error": {"root_cause": [cause], **cause}, "status": status}))


def hit(index: str, identifier: str, source: bytes) -> bytes:
    """Return one encoded hit, member by member in the order of Elasticsearch."""
    name, key = orjson.dumps(index), orjson.dumps(identifier)
    return b'{"_index":%b,"_id":%b,"_score":null,"_source":%b,"sort":[%b]}' % (name, key, source, key)


def search_answer(hits: Sequence[bytes] = (), *, failed: int = 0, timed_out: bool = False) -> bytes:
    """Return an encoded search answer; of its three shards `failed` did not answer."""
    truth = b"true" if timed_out else b"false"
    shards = b'{"total":3,"successful":%d,"skipped":0,"failed":%d}' % (3 - failed, failed)
    total = b'"total":{"value":%d,"relation":"eq"},"max_score":null' % len(hits)
    found = b'"hits":{%b,"hits":[%b]}' % (total, b",".join(hits))
    return b'{"took":3,"timed_out":%b,"_shards":%b,%b}' % (truth, shards, found)


@dataclass
class StandIn:
    """The indices of the stand-in and what it was asked."""

    url: str = ""
    documents: dict[tuple[str, str], Any] = field(default_factory=dict)  # (index, id) -> source
    hits: dict[str, list[bytes]] = field(default_factory=dict)  # index -> every hit of every search in it
    replies: dict[str, Reply] = field(default_factory=dict)  # index -> what any request to it is answered
    asked: list[tuple[str, Any]] = field(default_factory=list)  # path, parsed body
    options: list[dict[str, str]] = field(default_factory=list)  # the query parameters of each request

    def app(self) -> web.Application:
        """Return the application to serve."""
        app = web.Application()
        app.router.add_route("*", "/{index}/{operation}", self._answer)
        app.router.add_route("*", "/{index}/{operation}/{id}", self._answer)
        return app

    def grant(self, **granted: Any) -> str:
        """Store a key, for all companies unless said otherwise, and return its text."""
        text = mint()
        scope = {} if {"companies", "parent_companies"} & granted.keys() else {"all_companies": True}
        about: dict[str, Any] = {
            "key_id": text.key_id,
            "name": "test",
            "digest": text.digest,
            "created": dt.datetime.now(dt.UTC),
        }
        self.documents["api_keys", text.key_id] = msgspec.to_builtins(ApiKey(**(about | scope | granted)))
        return text.reveal()

    def add(self, index: str, identifier: str, record: dict[str, Any], **search: Any) -> None:
        """Store a record, marked as the indexer marks it."""
        source = document(orjson.dumps({"id": identifier, **search})[:-1], 1, 1, orjson.dumps(record))
        self.hits.setdefault(index, []).append(hit(index, identifier, source))

    def out(self, reply: Reply, *indices: str) -> None:
        """Answer every request to these indices, all of them by default, with the same."""
        self.replies |= dict.fromkeys(indices or ("api_keys", "companies", "listings", "agents", "control"), reply)

    async def _answer(self, request: web.Request) -> web.Response:
        index, operation = request.match_info["index"], request.match_info["operation"]
        self.asked.append((request.path, orjson.loads(await request.read() or b"null")))
        self.options.append(dict(request.query))
        reply = self.replies.get(index)
        if reply is None and operation == "_search":
            reply = Reply(body=search_answer(self.hits.get(index, ())))
        return await (reply or self._document(index, request.match_info["id"])).send()

    def _document(self, index: str, identifier: str) -> Reply:
        source = self.documents.get((index, identifier))
        if source is None:
            return Reply(status=HTTPStatus.NOT_FOUND, body=orjson.dumps({"_id": identifier, "found": False}))
        return Reply(body=orjson.dumps({"_id": identifier, "found": True, "_source": source}))
