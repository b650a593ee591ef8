"""A stand-in Elasticsearch on a real port: it answers what a test scripts, to inject faults a real node will not."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import zlib
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from aiohttp import web

from mappings import RESOURCES
from mappings.document import document
from mappings.index import index_body
from service.keys.record import ApiKey
from service.keys.text import mint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mappings import Resource

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


def sound_indices() -> dict[str, Any]:
    """Return what Elasticsearch tells of all indices that the service reads, by their names."""
    return {f"{resource.alias}-v0001": _facts(resource) for resource in RESOURCES} | {
        name: {"aliases": {}, "mappings": {}, "settings": {}} for name in ("api_keys", "control")
    }


def _facts(resource: Resource) -> dict[str, Any]:
    body: Any = index_body(resource)
    settings = {name: str(value).lower() for name, value in body["settings"].items()}
    return {
        "aliases": {resource.alias: {}},
        "mappings": copy.deepcopy(body["mappings"]),
        "settings": settings | {"index.refresh_interval": "1s"},
    }


@dataclass(frozen=True, kw_only=True)
class Held(Reply):
    """An answer that is held back until it is let go."""

    body: bytes = search_answer()
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: list[None] = field(default_factory=list)  # one for each request whose client has left

    async def send(self) -> web.Response:
        """Answer when told to."""
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.given_up.append(None)
            raise
        return await super().send()


@dataclass
class StandIn:
    """The indices of the stand-in and what it was asked."""

    url: str = ""
    documents: dict[tuple[str, str], Any] = field(default_factory=dict)  # (index, id) -> source
    keys: list[str] = field(default_factory=list)  # the texts of those that were granted
    hits: dict[str, list[bytes]] = field(default_factory=dict)  # index -> every hit of every search in it
    replies: dict[str, Reply] = field(default_factory=dict)  # index -> what any request to it is answered
    asked: list[tuple[str, Any]] = field(default_factory=list)  # path, parsed body
    options: list[dict[str, str]] = field(default_factory=list)  # the query parameters of each request
    indices: dict[str, Any] = field(default_factory=sound_indices)  # what it tells of each index
    versions: dict[str, str] = field(default_factory=lambda: {"secret-node-7": "9.5.3"})  # by the name of the node
    health: str = "green"
    strange: dict[str, Reply] = field(default_factory=dict)  # path -> what is answered when it is looked at
    looked_at: list[str] = field(default_factory=list)  # the paths that were
    keys_read: list[int] = field(default_factory=list)  # the sizes of searches for keys, which no request asks for
    written: list[Any] = field(default_factory=list)  # the lines of bulk requests

    def app(self) -> web.Application:
        """Return the application to serve."""
        app = web.Application()
        app.router.add_get("/_nodes/_all/_none", self._tell)
        app.router.add_get("/_cluster/health", self._tell)
        app.router.add_get("/{names}", self._tell)
        app.router.add_get("/{index}/_doc/readiness", self._tell)
        app.router.add_route("*", "/{index}/_bulk", self._write)
        app.router.add_route("*", "/api_keys/_search", self._keys)
        app.router.add_route("*", "/{index}/{operation}", self._answer)
        app.router.add_route("*", "/{index}/{operation}/{id}", self._answer)
        return app

    def grant(self, **granted: Any) -> str:
        """Store a key, for all companies and without a rate unless said otherwise, and return its text."""
        text = mint()
        scope = {} if {"companies", "parent_companies"} & granted.keys() else {"all_companies": True}
        about: dict[str, Any] = {
            "key_id": text.key_id,
            "name": "test",
            "digest": text.digest,
            "created": dt.datetime.now(dt.UTC),
            "rate": None,
        }
        self.documents["api_keys", text.key_id] = msgspec.to_builtins(ApiKey(**(about | scope | granted)))
        self.keys.append(text.reveal())
        return self.keys[-1]

    def add(self, index: str, identifier: str, record: dict[str, Any], **search: Any) -> None:
        """Store a record, marked as the indexer marks it."""
        source = document(orjson.dumps({"id": identifier, **search})[:-1], 1, 1, orjson.dumps(record))
        self.hits.setdefault(index, []).append(hit(index, identifier, source))

    def out(self, reply: Reply, *indices: str) -> None:
        """Answer every request to these indices, all of them by default, with the same."""
        self.replies |= dict.fromkeys(indices or ("api_keys", "companies", "listings", "agents", "control"), reply)

    def is_away(self, reply: Reply) -> None:
        """Answer whatever is asked with the same."""
        self.out(reply)
        asked = ",".join([resource.alias for resource in RESOURCES] + ["api_keys", "control"])
        self.strange = dict.fromkeys(("/_nodes/_all/_none", "/_cluster/health", f"/{asked}"), reply)

    async def _tell(self, request: web.Request) -> web.Response:
        self.looked_at.append(request.path)
        if request.path in self.strange:
            return await self.strange[request.path].send()
        told = self._told(request)
        return await (Reply(status=404) if told is None else Reply(body=orjson.dumps(told))).send()

    def _told(self, request: web.Request) -> Any:
        """Return what Elasticsearch tells under a path, None where there is nothing."""
        if request.path == "/_nodes/_all/_none":
            return {"nodes": {name: {"name": name, "version": version} for name, version in self.versions.items()}}
        if request.path == "/_cluster/health":
            return {"status": self.health, "number_of_data_nodes": len(self.versions)}
        found: dict[str, Any] = {}
        for name in request.match_info.get("names", "").split(","):
            behind = {index: facts for index, facts in self.indices.items() if name in {index, *facts["aliases"]}}
            if not behind:
                return None
            found |= behind
        return found

    async def _write(self, request: web.Request) -> web.Response:
        lines = [orjson.loads(line) for line in (await request.read()).splitlines()]
        self.written += lines
        # Without it a cluster that makes indices by itself would make one with any mapping.
        status = 201 if request.query.get("require_alias") == "true" else 400
        items = [{"index": {"status": status}} for line in lines if "index" in line]
        reply = self.replies.get(request.match_info["index"])
        return await (reply or Reply(body=orjson.dumps({"items": items}))).send()

    async def _keys(self, request: web.Request) -> web.Response:
        """Answer with all keys in the order of writing; when anything changes in one, the last sequence number does."""
        size = (await request.json())["size"]
        self.keys_read.append(size)
        documents = {key_id: source for (index, key_id), source in self.documents.items() if index == "api_keys"}
        sequence = zlib.crc32(orjson.dumps(documents))
        hits = [
            orjson.dumps({"_index": "api_keys", "_id": key_id, "_source": source, "sort": [sequence, key_id]})
            for key_id, source in documents.items()
        ]
        counted = b'"total":{"value":%d,' % len(hits)
        body = search_answer(hits[-size:]).replace(b'"total":{"value":%d,' % len(hits[-size:]), counted)
        return await (self.replies.get("api_keys") or Reply(body=body)).send()

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
