"""A small service that keeps its records in memory and breaks where it is told to: the injector of faults."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from consumer.answers import RESOURCES
from consumer.proof import Sum, bucket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]

KEY = "bk_0123456789_standinstandinstandinstandinstandi"
TIME = "2026-11-22T05:00:00.123Z"
_LINES_A_CHUNK = 50


@dataclass(frozen=True)
class Entry:
    """A record, or with a reason what is left of one."""

    id: str
    sequence: int
    record: Any
    reason: str | None = None

    @property
    def content(self) -> str:
        """The hash of the record."""
        return hashlib.sha256(orjson.dumps(self.record)).hexdigest()[:16]


class StandIn:
    """The three operations over records in memory; `faults` are used up, one for each request while there are any."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.held: dict[str, dict[str, Entry]] = {name: {} for name in RESOURCES}
        self.sequences = dict.fromkeys(RESOURCES, 0)
        self.epochs = dict.fromkeys(RESOURCES, 0)
        self.faults: list[Fault | None] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.cuts: list[int] = []  # so many lines of each next snapshot are sent, then the connection is cut
        self.ends = 0  # so many snapshots end in order, but without their last line
        self.lies = 0  # so many snapshots end with a digest that is not theirs
        self.lost: dict[str, set[str]] = defaultdict(set)  # changes of these are not told
        self.unsettled = 0
        self.endless = ""  # the snapshot of this resource never comes to its last lines
        self.on_request: Callable[[int], None] = lambda _: None

    def put(self, resource: str, identifier: str, **members: object) -> None:
        """Write a record."""
        self._stamp(resource, identifier, {"id": identifier, **members}, None)

    def drop(self, resource: str, identifier: str, reason: str = "deleted") -> None:
        """Let a record leave."""
        self._stamp(resource, identifier, None, reason)

    def _stamp(self, resource: str, identifier: str, record: object, reason: str | None) -> None:
        self.sequences[resource] += 1
        self.held[resource][identifier] = Entry(identifier, self.sequences[resource], record, reason)

    def live(self, resource: str) -> list[Entry]:
        """Return the records, with rising identifiers."""
        return sorted((e for e in self.held[resource].values() if e.reason is None), key=lambda entry: entry.id)

    def contents(self) -> dict[str, dict[str, tuple[str, Any]]]:
        """Return what a copy must hold."""
        return {name: {e.id: (e.content, e.record) for e in self.live(name)} for name in RESOURCES}

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(middlewares=[self._broken])
        app.router.add_get("/v1/changes", self._changes)
        app.router.add_get("/v1/snapshot/{resource}", self._snapshot)
        app.router.add_get("/v1/digest/{resource}", self._digest)
        return app

    @web.middleware
    async def _broken(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append((request.path, dict(request.query)))
        self.on_request(len(self.asked))
        if request.headers.get("x-api-key") != KEY:
            return problem(401, "unauthorized")
        fault = self.faults.pop(0) if self.faults else None
        answered = await fault(request) if fault else None
        response: web.StreamResponse = answered or await handler(request)
        return response

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        places: dict[str, int] = {}
        for token in filter(None, request.query.get("since", "").split(",")):
            for part in token.split("~"):
                name, epoch, place = part.split(".")
                assert name not in places, f"{name} is in two tokens"
                places[name] = int(place) if int(epoch) == self.epochs[name] else -1
        asked = list(filter(None, request.query.get("resources", "").split(","))) or list(places) or list(RESOURCES)
        if any(places.get(name, 0) < 0 for name in asked):
            return problem(410, "token-expired")
        told: list[tuple[str, Entry]] = []
        size = int(request.query.get("page_size", "200"))
        for name in sorted(asked, key=RESOURCES.index):
            entries = sorted(self.held[name].values(), key=lambda entry: entry.sequence)
            for entry in entries:
                if entry.sequence > places.get(name, 0) and len(told) <= size:
                    told.append((name, entry))
        page, more = told[:size], told[size:]
        after = {name: places.get(name, 0) for name in asked}
        for name, entry in page:
            after[name] = entry.sequence
        if not more:
            after = {name: self.sequences[name] for name in asked}
        changes = [_change(name, entry) for name, entry in page if entry.id not in self.lost[name]]
        following = "~".join(f"{name}.{self.epochs[name]}.{place}" for name, place in after.items())
        return web.json_response({"changes": changes, "next": following, "at_end": not more})

    async def _snapshot(self, request: web.Request) -> web.StreamResponse:
        name, after = request.match_info["resource"], request.query.get("after", "")
        entries = [entry for entry in self.live(name) if f"acme:{entry.id}" > after]
        token = f"{name}.{self.epochs[name]}.{self.sequences[name]}"
        proof = Sum()
        for entry in entries:
            proof.add(entry.id, entry.content)
        told = [{"resource": name, "token": token, "as_of": TIME, "count": len(entries), "schema": "0" * 16}]
        told += [_line(entry) for entry in entries]
        if self.ends:
            self.ends -= 1
            return await self._stream(request, told)
        digest = proof.digest if not self.lies else "f" * 16
        self.lies = max(0, self.lies - 1)
        told.append({"complete": True, "count": len(entries), "digest": digest, "last": None})
        return await self._stream(request, told)

    async def _stream(self, request: web.Request, told: list[Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
        cut = self.cuts.pop(0) if self.cuts else len(told)
        is_endless = self.endless == request.match_info["resource"]
        if cut == len(told) and not is_endless:
            # What is packed and not yet sent would be lost in a cut.
            response.enable_compression()
        assert request.transport is not None
        await response.prepare(request)
        for at in range(0, cut, _LINES_A_CHUNK):
            lines = [orjson.dumps(line) for line in told[at : min(at + _LINES_A_CHUNK, cut)]]
            if is_endless and at + _LINES_A_CHUNK >= cut:
                await asyncio.Event().wait()
            await response.write(b"\n".join(lines) + b"\n")
        if cut < len(told):
            await response.write(orjson.dumps(told[cut])[:5])
            request.transport.close()
        return response

    async def _digest(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["resource"]
        prefixes = list(filter(None, request.query.get("prefixes", "").split(",")))
        assert len(prefixes) <= 64
        length = min(4, len(prefixes[0]) + 2) if prefixes else 2
        whole, buckets = Sum(), defaultdict[str, list[Entry]](list)
        for entry in self.live(name):
            at = f"{bucket(entry.id):04x}"
            if not prefixes or at.startswith(tuple(prefixes)):
                whole.add(entry.id, entry.content)
                buckets[at[:length]].append(entry)
        told = [
            self._bucket(prefix, entries, is_last=bool(prefixes) and len(prefixes[0]) == 4)
            for prefix, entries in buckets.items()
        ]
        self.unsettled = max(0, self.unsettled - bool(prefixes))
        return web.json_response(
            {
                "resource": name,
                "token": "",
                "count": whole.count,
                "digest": whole.digest,
                "unsettled": 0,
                "buckets": told,
            }
        )

    def _bucket(self, prefix: str, entries: Iterable[Entry], *, is_last: bool) -> dict[str, Any]:
        proof = Sum()
        for entry in entries:
            proof.add(entry.id, entry.content)
        told = {"prefix": prefix, "count": proof.count, "digest": proof.digest, "unsettled": self.unsettled}
        return told | ({"records": [{"id": e.id, "content": e.content} for e in entries]} if is_last else {})


def _line(entry: Entry) -> dict[str, Any]:
    return {
        "company": "acme",
        "id": entry.id,
        "sequence": entry.sequence,
        "time": TIME,
        "content": entry.content,
        "record": entry.record,
    }


def _change(name: str, entry: Entry) -> dict[str, Any]:
    if entry.reason is None:
        return {"resource": name, **_line(entry)}
    return {
        "resource": name,
        "company": "acme",
        "id": entry.id,
        "sequence": entry.sequence,
        "time": TIME,
        "reason": entry.reason,
    }


def problem(status: int, code: str, **headers: str) -> web.Response:
    """Return a problem document."""
    return web.json_response({"code": code, "detail": "Made up."}, status=status, headers=headers)


def answering(status: int, code: str, **headers: str) -> Fault:
    """Return a fault that answers with a problem."""

    async def fault(_: web.Request) -> web.StreamResponse:
        return problem(status, code, **headers)

    return fault


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Close the connection without an answer."""
    assert request.transport is not None
    request.transport.close()
    await asyncio.sleep(0)
    return web.Response()
