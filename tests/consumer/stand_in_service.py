"""A small service with records in memory and faults on request: the fault injector."""

import asyncio
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from brokerage_feed.record_hashes import RunningDigest, bucket_of
from brokerage_feed.records import RESOURCE_NAMES as RESOURCES
from tests.consumer.stand_in_files import PublishedStandIn, publish
from tests.network.http import HANG_UP, Reply, Request

Fault = Callable[[Request], Awaitable[Reply | None]]

KEY = "bk_0123456789_standinstandinstandinstandinstandi"
TIME = "2026-11-22T05:00:00.123Z"
_LINES_A_CHUNK = 50


@dataclass(frozen=True)
class StandInRecord:
    """A record, or with a reason what is left of one."""

    id: str
    sequence: int
    record: Any
    reason: str | None = None

    @property
    def content(self) -> str:
        return hashlib.sha256(orjson.dumps(self.record)).hexdigest()[:16]


class StandInService:
    """The three operations over records in memory; `faults` are used up, one for each request while there are any."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, StandInRecord]] = {name: {} for name in RESOURCES}
        self.sequences = dict.fromkeys(RESOURCES, 0)
        self.epochs = dict.fromkeys(RESOURCES, 0)
        self.faults: list[Fault | None] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.cuts: list[int] = []  # so many lines of each next snapshot are sent, then the connection is cut
        self.ends = 0  # so many snapshots end in order, but without their last line
        self.lies = 0  # so many snapshots end with a digest that is not theirs
        self.lost: dict[str, set[str]] = defaultdict(set)  # changes of these are not sent
        self.unsettled = 0
        self.absent: set[str] = set()  # resources that were never loaded
        self.published: dict[str, PublishedStandIn] = {}  # by resource
        self.endless = ""  # the snapshot of this resource never comes to its last lines
        self.on_request: Callable[[int], None] = lambda _: None

    def put(self, resource: str, identifier: str, **members: object) -> None:
        self._stamp(resource, identifier, {"id": identifier, **members}, None)

    def drop(self, resource: str, identifier: str, reason: str = "deleted") -> None:
        """Let a record leave."""
        self._stamp(resource, identifier, None, reason)

    def _stamp(self, resource: str, identifier: str, record: object, reason: str | None) -> None:
        self.sequences[resource] += 1
        self.held[resource][identifier] = StandInRecord(identifier, self.sequences[resource], record, reason)

    def live(self, resource: str) -> list[StandInRecord]:
        return sorted((e for e in self.held[resource].values() if e.reason is None), key=lambda entry: entry.id)

    def publish(self, resource: str, records_a_file: int) -> PublishedStandIn:
        lines = [_line(entry) for entry in self.live(resource)]
        token = f"{resource}.{self.epochs[resource]}.{self.sequences[resource]}"
        self.published[resource] = publish(resource, token, lines, records_a_file)
        return self.published[resource]

    def publish_changes(self, resource: str, since: int) -> PublishedStandIn:
        """Publish files of what is live, and one of the changes after a sequence number."""
        published = self.publish(resource, 1_100)
        entries = sorted(self.held[resource].values(), key=lambda entry: entry.sequence)
        published.add_changes(resource, [_change(resource, entry) for entry in entries if entry.sequence > since])
        return published

    def contents(self) -> dict[str, dict[str, tuple[str, Any]]]:
        """Return what a copy must hold."""
        return {name: {e.id: (e.content, e.record) for e in self.live(name)} for name in RESOURCES}

    async def reply(self, request: Request) -> Reply:
        self.asked.append((request.path, request.query))
        self.on_request(len(self.asked))
        if request.headers.get("x-api-key") != KEY:
            return problem(401, "unauthorized")
        fault = self.faults.pop(0) if self.faults else None
        broken = await fault(request) if fault else None
        return broken or self._whole(request)

    def _whole(self, request: Request) -> Reply:
        _, _, operation, *rest = request.path.split("/")
        if operation == "changes":
            return self._changes(request.query)
        if operation == "exports":
            found = self.published.get(rest[0])
            return problem(404, "not-published") if found is None else found.reply(request, *rest[1:])
        if rest[0] in self.absent:
            return problem(503, "not-loaded")
        return (self._snapshot if operation == "snapshot" else self._digest)(rest[0], request.query)

    def _changes(self, query: dict[str, str]) -> Reply:
        places: dict[str, int] = {}
        for token in filter(None, query.get("since", "").split(",")):
            for part in token.split("~"):
                name, epoch, place = part.split(".")
                assert name not in places, f"{name} is in two tokens"
                places[name] = int(place) if int(epoch) == self.epochs[name] else -1
        asked = list(filter(None, query.get("resources", "").split(","))) or list(places) or list(RESOURCES)
        if any(places.get(name, 0) < 0 for name in asked):
            return problem(410, "token-expired")
        assert not self.absent.intersection(asked)
        reported: list[tuple[str, StandInRecord]] = []
        size = int(query.get("page_size", "200"))
        for name in sorted(asked, key=RESOURCES.index):
            entries = sorted(self.held[name].values(), key=lambda entry: entry.sequence)
            for entry in entries:
                if entry.sequence > places.get(name, 0) and len(reported) <= size:
                    reported.append((name, entry))
        page, more = reported[:size], reported[size:]
        after = {name: places.get(name, 0) for name in asked}
        for name, entry in page:
            after[name] = entry.sequence
        if not more:
            after = {name: self.sequences[name] for name in asked}
        changes = [_change(name, entry) for name, entry in page if entry.id not in self.lost[name]]
        following = "~".join(f"{name}.{self.epochs[name]}.{place}" for name, place in after.items())
        return _json({"changes": changes, "next": following, "at_end": not more})

    def _snapshot(self, name: str, query: dict[str, str]) -> Reply:
        after = query.get("after", "")
        entries = [entry for entry in self.live(name) if f"acme:{entry.id}" > after]
        token = f"{name}.{self.epochs[name]}.{self.sequences[name]}"
        proof = RunningDigest()
        for entry in entries:
            proof.add(entry.id, entry.content)
        reported = [{"resource": name, "token": token, "as_of": TIME, "count": len(entries), "schema": "0" * 16}]
        reported += [_line(entry) for entry in entries]
        if self.ends:
            self.ends -= 1
            return self._stream(name, reported)
        digest = proof.digest if not self.lies else "f" * 16
        self.lies = max(0, self.lies - 1)
        reported.append({"complete": True, "count": len(entries), "digest": digest, "last": None})
        return self._stream(name, reported)

    def _stream(self, name: str, reported: list[Any]) -> Reply:
        cut = self.cuts.pop(0) if self.cuts else len(reported)
        return _Lines(lines=[orjson.dumps(line) for line in reported], cut=cut, is_endless=self.endless == name)

    def _digest(self, name: str, query: dict[str, str]) -> Reply:
        prefixes = list(filter(None, query.get("prefixes", "").split(",")))
        assert len(prefixes) <= 64
        length = min(4, len(prefixes[0]) + 2) if prefixes else 2
        whole, buckets = RunningDigest(), defaultdict[str, list[StandInRecord]](list)
        for entry in self.live(name):
            at = f"{bucket_of(entry.id):04x}"
            if not prefixes or at.startswith(tuple(prefixes)):
                whole.add(entry.id, entry.content)
                buckets[at[:length]].append(entry)
        reported = [
            self._bucket(prefix, entries, is_last=bool(prefixes) and len(prefixes[0]) == 4)
            for prefix, entries in buckets.items()
        ]
        self.unsettled = max(0, self.unsettled - bool(prefixes))
        return _json(
            {
                "resource": name,
                "token": "",
                "count": whole.count,
                "digest": whole.digest,
                "unsettled": 0,
                "buckets": reported,
            }
        )

    def _bucket(self, prefix: str, entries: Iterable[StandInRecord], *, is_last: bool) -> dict[str, Any]:
        proof = RunningDigest()
        for entry in entries:
            proof.add(entry.id, entry.content)
        reported = {"prefix": prefix, "count": proof.count, "digest": proof.digest, "unsettled": self.unsettled}
        return reported | ({"records": [{"id": e.id, "content": e.content} for e in entries]} if is_last else {})


@dataclass(frozen=True, kw_only=True)
class _Lines(Reply):
    """A snapshot in chunks; after `cut` lines the connection closes, an endless one then stays open."""

    content_type: str = "application/x-ndjson"
    lines: list[bytes]
    cut: int
    is_endless: bool

    async def send(self, request: Request) -> None:
        is_whole = self.cut == len(self.lines) and not self.is_endless
        # What is packed and not yet sent would be lost in a cut.
        packer = zlib.compressobj(level=1, wbits=31) if is_whole else None
        coding = {"Content-Encoding": "gzip"} if packer else {}
        send = request.connection.send
        await send(self.head(**{"Transfer-Encoding": "chunked"}, **coding))
        for at in range(0, self.cut, _LINES_A_CHUNK):
            if self.is_endless and at + _LINES_A_CHUNK >= self.cut:
                await asyncio.Event().wait()
            sent = b"".join(line + b"\n" for line in self.lines[at : min(at + _LINES_A_CHUNK, self.cut)])
            await send(_chunk(packer.compress(sent) + packer.flush(zlib.Z_SYNC_FLUSH) if packer else sent))
        if self.cut < len(self.lines):
            await send(_chunk(self.lines[self.cut][:5]))
            request.connection.writer.close()
        else:
            await send((_chunk(packer.flush()) if packer else b"") + _chunk(b""))


def _chunk(sent: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(sent), sent)


def _line(entry: StandInRecord) -> dict[str, Any]:
    return {
        "company": "acme",
        "id": entry.id,
        "sequence": entry.sequence,
        "time": TIME,
        "content": entry.content,
        "record": entry.record,
    }


def _change(name: str, entry: StandInRecord) -> dict[str, Any]:
    if entry.reason is None:
        return {"resource": name, **_line(entry)}
    left = {name: value for name, value in _line(entry).items() if name not in {"content", "record"}}
    return {"resource": name, **left, "reason": entry.reason}


def problem(status: int, code: str, **headers: str) -> Reply:
    return _json({"code": code, "detail": "Made up."}, status, **headers)


def _json(value: object, status: int = 200, **headers: str) -> Reply:
    return Reply(status=status, body=orjson.dumps(value), headers=headers)


def respond_with(status: int, code: str, **headers: str) -> Fault:
    async def fault(_: Request) -> Reply:
        return problem(status, code, **headers)

    return fault


async def hang_up(_: Request) -> Reply:
    """Close the connection without a response."""
    return HANG_UP
