"""A stand-in for Elasticsearch on a real port, with scripted responses and faults that a real node does not produce."""

import asyncio
import copy
import datetime as dt
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import orjson

from mappings import RESOURCES, Resource
from mappings.indices import index_body
from mappings.stored_document import encode_document
from service.keys.api_key import ApiKey, generate_key
from tests.network.http import Reply as PlainReply
from tests.network.http import Request, http
from tests.network.server import Server, serving


@dataclass(frozen=True, kw_only=True)
class Reply(PlainReply):
    """A scripted response, with the product header of Elasticsearch."""

    headers: Mapping[str, str] = field(default_factory=lambda: {"X-Elastic-Product": "Elasticsearch"})


def refusal(status: int, kind: str) -> Reply:
    """Return an error response as Elasticsearch writes it, with a root cause of the given type."""
    cause = {"type": kind, "reason": f"scripted {kind} in secret-node-7"}
    return Reply(status=status, body=orjson.dumps({"error": {"root_cause": [cause], **cause}, "status": status}))


def hit(index: str, identifier: str, source: bytes) -> bytes:
    """Return an encoded hit, with its members in the order of Elasticsearch."""
    name, key = orjson.dumps(index), orjson.dumps(identifier)
    return b'{"_index":%b,"_id":%b,"_score":null,"_source":%b,"sort":[%b]}' % (name, key, source, key)


def _key_hit(sequence: int, key_id: str, source: dict[str, Any]) -> bytes:
    """Return the encoded hit of a key, as of a search by sequence number."""
    place = {"_index": "api_keys", "_id": key_id, "_seq_no": sequence, "_primary_term": 1}
    return orjson.dumps({**place, "_source": source, "sort": [sequence, key_id]})


def search_response(hits: Sequence[bytes] = (), *, shards: int = 3, failed: int = 0, timed_out: bool = False) -> bytes:
    """Return an encoded search response; of its shards `failed` failed."""
    truth = b"true" if timed_out else b"false"
    found_in = b'{"total":%d,"successful":%d,"skipped":0,"failed":%d}' % (shards, shards - failed, failed)
    total = b'"total":{"value":%d,"relation":"eq"},"max_score":null' % len(hits)
    found = b'"hits":{%b,"hits":[%b]}' % (total, b",".join(hits))
    return b'{"took":3,"timed_out":%b,"_shards":%b,%b}' % (truth, found_in, found)


def read_response(hits: Sequence[bytes], index: str, identifiers: Iterable[str]) -> bytes:
    """Return an encoded response to `_mget` of some identifiers, with those of the hits."""
    sources = {orjson.loads(encoded)["_id"]: encoded.partition(b'"_source":')[2] for encoded in hits}
    documents: list[bytes] = []
    for name in identifiers:
        found = b'"found":true,"_source":%b' % sources[name] if name in sources else b'"found":false}'
        documents.append(b'{"_index":%b,"_id":%b,%b' % (orjson.dumps(index), orjson.dumps(name), found))
    return b'{"docs":[%b]}' % b",".join(documents)


def valid_indices() -> dict[str, Any]:
    """Return the descriptions of all indices that the service reads, by name."""
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
class HeldReply(Reply):
    """A response that is held back until it is released."""

    body: bytes = search_response()
    release: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: list[None] = field(default_factory=list)  # one for each request whose client has left

    async def send(self, request: Request) -> None:
        """Respond once it is released."""
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.given_up.append(None)
            raise
        await super().send(request)


@dataclass
class StandIn:
    """The indices of the stand-in, and the requests it received."""

    url: str = ""
    documents: dict[tuple[str, str], Any] = field(default_factory=dict)  # (index, id) -> source
    keys: list[str] = field(default_factory=list)  # the texts of those that were granted
    hits: dict[str, list[bytes]] = field(default_factory=dict)  # index -> every hit of every search in it
    replies: dict[str, Reply] = field(default_factory=dict)  # index -> what any request to it is answered
    asked: list[tuple[str, Any]] = field(default_factory=list)  # path, parsed body
    options: list[dict[str, str]] = field(default_factory=list)  # the query parameters of each request
    indices: dict[str, Any] = field(default_factory=valid_indices)  # the description of each index
    versions: dict[str, str] = field(default_factory=lambda: {"secret-node-7": "9.5.3"})  # by the name of the node
    health: str = "green"
    strange: dict[str, Reply] = field(default_factory=dict)  # path -> the response to a GET
    looked_at: list[str] = field(default_factory=list)  # the paths that were
    keys_read: list[int] = field(default_factory=list)  # the sizes of searches for keys, which no request asks for
    written: list[Any] = field(default_factory=list)  # the lines of bulk requests
    _written_keys: dict[str, tuple[int, bytes]] = field(default_factory=dict)  # sequence number and source, by id
    _sequences: Iterator[int] = field(default_factory=itertools.count)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        """Serve it."""
        async with serving(http(self.reply)) as server:
            self.url = server.url
            yield server

    async def reply(self, request: Request) -> Reply:
        """Return the response to a request."""
        first, *rest = [unquote(part) for part in urlsplit(request.target).path.strip("/").split("/")]
        if not rest or first.startswith("_") or rest == ["_doc", "readiness"]:
            return self._report(request.path)
        if rest == ["_bulk"]:
            return self._write(request, first)
        if (first, rest) == ("api_keys", ["_search"]):
            return self._keys(request.json())
        return self._answer(request, first, *rest)

    def grant(self, **granted: Any) -> str:
        """Store a key, for all companies and without a rate unless said otherwise, and return its text."""
        text = generate_key()
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
        """Store a record with delimiters as the indexer writes them."""
        fields = {"id": identifier, "company": "acme", "deleted": False, **search}
        source = encode_document(orjson.dumps(fields)[:-1], 1, 1, orjson.dumps(record))
        self.hits.setdefault(index, []).append(hit(index, identifier, source))

    def out(self, reply: Reply, *indices: str) -> None:
        """Send the same response to every request to these indices, by default to all."""
        self.replies |= dict.fromkeys(indices or ("api_keys", "companies", "listings", "agents", "control"), reply)

    def is_away(self, reply: Reply) -> None:
        """Send the same response to every request."""
        self.out(reply)
        asked = ",".join([resource.alias for resource in RESOURCES] + ["api_keys", "control"])
        self.strange = dict.fromkeys(("/_nodes/_all/_none", "/_cluster/health", f"/{asked}"), reply)

    def _report(self, path: str) -> Reply:
        self.looked_at.append(path)
        if path in self.strange:
            return self.strange[path]
        body = self._body_of(path)
        return Reply(status=404) if body is None else Reply(body=orjson.dumps(body))

    def _body_of(self, path: str) -> Any:
        """Return the body for a path, None if there is none."""
        if path == "/_nodes/_all/_none":
            return {"nodes": {name: {"name": name, "version": version} for name, version in self.versions.items()}}
        if path == "/_cluster/health":
            return {"status": self.health, "number_of_data_nodes": len(self.versions)}
        found: dict[str, Any] = {}
        for name in path.strip("/").split(","):
            behind = {index: facts for index, facts in self.indices.items() if name in {index, *facts["aliases"]}}
            if not behind:
                return None
            found |= behind
        return found

    def _write(self, request: Request, index: str) -> Reply:
        lines = [orjson.loads(line) for line in request.body.splitlines()]
        self.written += lines
        # Without it a cluster that makes indices by itself would make one with any mapping.
        status = 201 if request.query.get("require_alias") == "true" else 400
        items = [{"index": {"status": status}} for line in lines if "index" in line]
        return self.replies.get(index) or Reply(body=orjson.dumps({"items": items}))

    def _keys(self, body: dict[str, Any]) -> Reply:
        """Return the keys in the order of writing, or only the last one; a key that has changed is written again."""
        self.keys_read.append(body["size"])
        documents = {key_id: source for (index, key_id), source in self.documents.items() if index == "api_keys"}
        for key_id, source in documents.items():
            if self._written_keys.get(key_id, (0, b""))[1] != (content := orjson.dumps(source)):
                self._written_keys[key_id] = next(self._sequences), content
        hits = sorted((self._written_keys[key_id][0], key_id) for key_id in documents)
        after = body.get("search_after", [-1])[0]
        found = [_key_hit(*hit, documents[hit[1]]) for hit in hits if hit[0] >= after][-body["size"] :]
        counted = b'"total":{"value":%d,' % len(hits)
        encoded = search_response(found, shards=1).replace(b'"total":{"value":%d,' % len(found), counted)
        summed = b',"aggregations":{"sequences":{"value":%d.0}}}' % sum(sequence for sequence, _ in hits)
        return self.replies.get("api_keys") or Reply(body=encoded.removesuffix(b"}") + summed)

    def _answer(self, request: Request, index: str, operation: str, identifier: str = "") -> Reply:
        self.asked.append((request.path, request.json()))
        self.options.append(request.query)
        reply = self.replies.get(index)
        if reply is None and operation == "_search":
            reply = Reply(body=search_response(self.hits.get(index, ())))
        if reply is None and operation == "_mget":
            identifiers = [place["_id"] for place in request.json()["docs"]]
            reply = Reply(body=read_response(self.hits.get(index, ()), f"{index}-v0001", identifiers))
        return reply or self._document(index, identifier)

    def _document(self, index: str, identifier: str) -> Reply:
        source = self.documents.get((index, identifier))
        if source is None:
            return Reply(status=HTTPStatus.NOT_FOUND, body=orjson.dumps({"_id": identifier, "found": False}))
        return Reply(body=orjson.dumps({"_id": identifier, "found": True, "_source": source}))
