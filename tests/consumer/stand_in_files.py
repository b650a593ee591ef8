"""Published files of the stand-in service: sent in parts, cut on request."""

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any

import orjson

from brokerage_feed.record_hashes import RunningDigest
from cluster.zstd import zstd
from tests.network.http import Reply, Request

_FRAME_LINES = 100


@dataclass
class PublishedStandIn:
    """A list of files and their bytes by name; `cuts` are used up, one for each file that is sent."""

    listed: dict[str, Any]
    files: dict[str, bytes]
    changes: list[dict[str, Any]] = field(default_factory=list)  # files of changes, for any token
    cuts: list[int] = field(default_factory=list)  # so many bytes are sent, then the connection is closed
    sent: list[tuple[str, int, int]] = field(default_factory=list)  # name, first byte and number of bytes
    elsewhere: str = ""  # the address that requests for files are redirected to
    before_cut: Callable[[int], Awaitable[None]] | None = None  # gets the number of bytes of the file that were sent

    def reply(self, request: Request, *names: str) -> Reply:
        """Return the list, or a part of a file."""
        if not names:
            changes = self.changes if request.query.get("since") else None
            return Reply(status=200, body=orjson.dumps(self.listed | {"changes": changes or None}), headers={})
        (name,) = names
        if name not in self.files:
            return Reply(status=404, body=b'{"code":"not-published"}', headers={})
        if self.elsewhere:
            return Reply(status=307, body=b"", headers={"Location": f"{self.elsewhere}/{name}?signature=a%2Fb%2B"})
        return self.part(request, name)

    def part(self, request: Request, name: str) -> Reply:
        data = self.files[name]
        first = self._first(request, data)
        part = data[first:]
        cut = min(self.cuts.pop(0), len(part)) if self.cuts else len(part)
        self.sent.append((name, first, cut))
        status, wait = 206 if first else 200, partial(self.before_cut or _close_now, first + cut)
        return _Part(status=status, body=part, cut=cut, before_cut=wait, content_type="application/zstd")

    def add_changes(self, resource: str, lines: Sequence[dict[str, Any]]) -> None:
        name = f"c{len(self.changes) + 1:04}.ndjson.zst"
        self.files[name] = _packed(lines)
        self.changes.append(_listed(resource, name, self.files[name], lines))

    def replace(self, listed: dict[str, Any], data: bytes) -> None:
        """Publish other bytes under the name of a file."""
        self.files[listed["href"].partition("?")[0].rpartition("/")[2]] = data
        listed.update(bytes=len(data), sha256=sha256(data).hexdigest())

    def _first(self, request: Request, data: bytes) -> int:
        tag = f'"{sha256(data).hexdigest()}"'
        if request.headers.get("if-range", tag) != tag or "range" not in request.headers:
            return 0
        return int(request.headers["range"].removeprefix("bytes=").removesuffix("-"))


@dataclass(frozen=True, kw_only=True)
class _Part(Reply):
    cut: int
    before_cut: Callable[[], Awaitable[None]]

    async def send(self, request: Request) -> None:
        """Send the first bytes; close the connection if they are not all."""
        send = request.connection.send
        await send(self.head(**{"Content-Length": str(len(self.body))}) + self.body[: self.cut])
        if self.cut < len(self.body):
            await self.before_cut()
            request.connection.writer.close()


async def _close_now(_end: int) -> None:
    """Close a connection while the client may still read from it."""


def publish(resource: str, token: str, lines: Sequence[dict[str, Any]], records_a_file: int) -> PublishedStandIn:
    files, listed, digest = dict[str, bytes](), list[dict[str, Any]](), RunningDigest()
    for line in lines:
        digest.add(line["id"], line["content"])
    for number, start in enumerate(range(0, len(lines), records_a_file), start=1):
        part, name = lines[start : start + records_a_file], f"{number:05}.ndjson.zst"
        files[name] = _packed(part)
        listed.append(_listed(resource, name, files[name], part))
    published = dt.datetime.now(dt.UTC).isoformat()
    about = {"resource": resource, "token": token, "published": published}
    return PublishedStandIn(about | {"records": digest.count, "digest": digest.digest, "files": listed}, files)


def _listed(resource: str, name: str, data: bytes, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "href": f"/v1/exports/{resource}/{name}?platform_company_id=acme",
        "format": "ndjson.zst",
        "bytes": len(data),
        "records": len(lines),
        "sha256": sha256(data).hexdigest(),
        "last": f"{lines[-1]['company']}:{lines[-1]['id']}",
        "table": resource,
    }


def _packed(lines: Sequence[dict[str, Any]]) -> bytes:
    texts = [orjson.dumps(line) + b"\n" for line in lines]
    frames = (b"".join(texts[at : at + _FRAME_LINES]) for at in range(0, len(texts), _FRAME_LINES))
    return b"".join(map(zstd.compress, frames))
