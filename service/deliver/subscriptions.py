"""A subscription, as the command stores it, and how far it has been delivered, as `brokerage deliver` stores it.

They are in two indices: the service shows the progress without access to the secrets, and `brokerage deliver` cannot
change the addresses. The documents of both have the id of the subscription.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextvars import Context
from enum import StrEnum
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import orjson

from service.errors import EngineUnavailable
from service.search.engine import SearchEngine
from service.search.responses import parse_hits
from service.subscriptions import KnownSubscriptions, SubscriptionSummary
from service.token import FeedPosition

SUBSCRIPTIONS_INDEX_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1", "index.refresh_interval": "1s"},
    "mappings": {"dynamic": False, "properties": {"id": {"type": "keyword"}, "name": {"type": "keyword"}}},
}
DELIVERIES_INDEX_BODY: dict[str, Any] = {
    "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1", "index.refresh_interval": "1s"},
    "mappings": {"dynamic": False, "properties": {"url": {"type": "keyword"}}},
}
# The document of `deliveries` that says when a process delivered last.
HEARTBEAT_ID = "heartbeat"
MAX_SUBSCRIPTIONS = 10_000
_ALL = orjson.dumps({"size": MAX_SUBSCRIPTIONS})
# After so many failures in a row the circuit is open: an attempt every few minutes shows whether it can be closed.
OPEN_AFTER = 8
# A subscription starts where the watermarks were when it was created.
NOW = "now"


class Body(StrEnum):
    """What a delivery carries."""

    CHANGES = "changes"  # a page of /changes
    EVENTS = "events"  # EntityEvents of RESO (RCP-28)


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent where, in the name of which key. Times are in milliseconds since 1970.

    It begins at `start`: a token, or the number of an event, after which changes are sent; empty for the beginning of
    all data; NOW for `positions`. `starts` counts how often it was told to begin there. Until `replaced_until`, the
    secret that `secret` replaced signs, too.
    """

    id: str
    name: str
    key_id: str
    url: str
    secret: str
    created: int
    resources: tuple[str, ...] = ()  # all without any
    changed: tuple[str, ...] = ()  # groups of fields; any change without any
    body: Body = Body.CHANGES
    bearer: str = ""
    start: str = ""
    positions: dict[str, FeedPosition] = {}
    starts: int = 1
    is_paused: bool = False
    edits: int = 0  # each has the next attempt made at once
    replaced_secret: str = ""
    replaced_until: int = 0

    @property
    def secrets(self) -> list[str]:
        """Return the secrets that sign now."""
        return [self.secret, self.replaced_secret] if now_milliseconds() < self.replaced_until else [self.secret]

    def parameters(self) -> dict[str, str]:
        """Return the parameters of `/changes` that choose what is sent."""
        chosen = {"resources": self.resources, "changed": self.changed}
        return {name: ",".join(values) for name, values in chosen.items() if values}


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a subscription has been delivered. Times are in milliseconds since 1970, 0 for none.

    `since` is the token, or the number of the event, up to which everything was accepted; empty at the beginning of all
    data. `number` is that of the last accepted delivery. `waiting` is since when changes wait for it, `failures` how
    many attempts have failed since the last that did not.
    """

    name: str
    key_id: str
    url: str
    starts: int = 0
    since: str = ""
    number: int = 0
    waiting: int = 0
    failures: int = 0
    delivered: int = 0
    answer: str = ""
    answered: int = 0
    is_paused: bool = False
    is_stopped: bool = False  # with its key

    @property
    def state(self) -> str:
        if self.is_paused or self.is_stopped:
            return "paused" if self.is_paused else "stopped"
        return "open" if self.failures >= OPEN_AFTER else "failing" if self.failures else "active"

    def summary(self) -> SubscriptionSummary:
        behind = max(0.0, time.time() - self.waiting / 1000) if self.waiting else 0.0
        return SubscriptionSummary(
            name=self.name,
            key_id=self.key_id,
            url=self.url,
            state=self.state,
            behind=None if self.is_paused or self.is_stopped else behind,
            number=self.number,
            delivered=self.delivered / 1000,
            answer=self.answer,
            answered=self.answered / 1000,
        )


def decode_deliveries(hits: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Progress], float]:
    """Return how far each subscription is, by its id, and when a process that delivers last gave a sign.

    That is in seconds since 1970, 0 if none ever did. The index holds the locks of shares, too.
    """
    sources = {hit["_id"]: hit["_source"] for hit in hits}
    progress = {name: msgspec.convert(source, Progress) for name, source in sources.items() if "url" in source}
    return progress, sources.get(HEARTBEAT_ID, {}).get("at", 0) / 1000


def now_milliseconds() -> int:
    return int(time.time() * 1000)


class VersionedProgress(NamedTuple):
    """Progress and the version of its document, the condition of the next write."""

    progress: Progress
    seq_no: int
    primary_term: int


class ProgressConflict(Exception):
    """The document is not the one that was read: another process has written it, or the subscription was deleted."""


class ProgressStore:
    """Progress in Elasticsearch. A write replaces the version that was read, so that no process undoes another's.

    What is written while a request is under way is in the next one: each costs Elasticsearch a sync of its disk.
    """

    def __init__(self, engine: SearchEngine, index: str) -> None:
        self._engine = engine
        self._index = index
        self._waiting: list[tuple[bytes, asyncio.Future[dict[str, Any]]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def read(self, identifier: str) -> VersionedProgress | None:
        """Return the progress as last written; None if there is none. Raises ApiError."""
        status, body = await self._engine.request("GET", f"/{self._index}/_doc/{quote(identifier, safe='')}", None)
        if status != HTTPStatus.OK:
            if status == HTTPStatus.NOT_FOUND:
                return None
            raise EngineUnavailable(f"{self._index} may not be read ({status}).")
        hit = orjson.loads(body)
        progress = msgspec.convert(hit["_source"], Progress)
        return VersionedProgress(progress, hit["_seq_no"], hit["_primary_term"])

    async def write(self, identifier: str, progress: Progress, over: VersionedProgress) -> VersionedProgress:
        """Replace a version; raise ProgressConflict if it is no longer the present one, or ApiError."""
        condition = {"if_seq_no": over.seq_no, "if_primary_term": over.primary_term}
        item = await self._bulk({"index": {"_id": identifier, **condition}}, msgspec.to_builtins(progress))
        if item["status"] in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
            raise ProgressConflict
        return VersionedProgress(progress, _written(item)["_seq_no"], item["_primary_term"])

    async def beat(self) -> None:
        """Note that a process delivers now; raise ApiError."""
        _written(await self._bulk({"index": {"_id": HEARTBEAT_ID}}, {"at": now_milliseconds()}))

    async def known(self) -> KnownSubscriptions:
        """Return how far all subscriptions are, by name, nothing without their index; raise ApiError."""
        status, response = await self._engine.request("POST", f"/{self._index}/_search", _ALL)
        if status not in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}:
            raise EngineUnavailable(f"{self._index} may not be read: see docs/elasticsearch-rights.md.")
        progress, heartbeat = decode_deliveries(parse_hits(response) if status == HTTPStatus.OK else ())
        found = [each.summary() for each in progress.values()]
        return KnownSubscriptions(sorted(found, key=lambda summary: summary.name), heartbeat)

    async def _bulk(self, action: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
        lines = b"%b\n%b\n" % (orjson.dumps(action), orjson.dumps(document))
        written: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((lines, written))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), context=Context())
        return await written

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                items = await self._written_together(b"".join(lines for lines, _ in batch))
            except Exception as error:  # each of those who wait raises it
                for _, written in batch:
                    if not written.done():
                        written.set_exception(error)
                continue
            for (_, written), item in zip(batch, items, strict=True):
                if not written.done():
                    written.set_result(item)

    async def _written_together(self, lines: bytes) -> list[dict[str, Any]]:
        status, body = await self._engine.request("POST", f"/{self._index}/_bulk", lines)
        if status != HTTPStatus.OK:
            raise EngineUnavailable(f"{self._index} may not be written ({status}).")
        return [item["index"] for item in orjson.loads(body)["items"]]


def _written(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item of a bulk response; raise EngineUnavailable if it was not written."""
    if item["status"] >= HTTPStatus.BAD_REQUEST:
        raise EngineUnavailable(f"Progress was not written: {item['error'].get('reason')}")
    return item


def decode_subscription(hit: Mapping[str, Any]) -> Subscription | None:
    """Return a subscription of the index, None for a document that is damaged."""
    try:
        return msgspec.convert(hit["_source"], Subscription)
    except msgspec.ValidationError:
        return None
