"""Copies of a feed that consumers keep by a snapshot and its changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from tests.simulation.history import FEEDS

# Requests a path below /v1 with parameters, and returns the body of its answer.
Get = Callable[[str, dict[str, str]], Awaitable[bytes]]

_PAUSE_SECONDS = 0.3
_PAGE = 50  # changes
_LONGEST_SECONDS = 120.0


class Refused(Exception):
    """The service refused a request; the argument is the status."""


class Gone(Refused):
    """A position is void: whoever follows begins anew."""


@dataclass
class SnapshotCopy:
    """A copy of what a key may read of a resource, by identifier: of each record its `kept` member, or all of it."""

    alias: str
    size: int  # of a page of changes
    market: Mapping[str, str] = field(default_factory=dict)
    kept: str | None = "ListingID"
    token: str = ""
    records: dict[str, Any] = field(default_factory=dict)
    place: int = 0  # the sequence of the last change
    snapshots: int = 0

    async def begin(self, get: Get) -> None:
        """Read a snapshot; fail if it is not whole."""
        body = await get(f"snapshot/{self.alias}", {**self.market})
        assert self.take(body), f"not whole: {body!r}"

    def take(self, body: bytes) -> bool:
        """Replace the copy with a snapshot if it is whole; return whether it is."""
        head, *lines, tail = [orjson.loads(line) for line in body.splitlines()]
        if not head["count"] == tail.get("count") == len(lines):
            return False
        self.records = {line["id"]: self._kept(line["record"]) for line in lines}
        self.token, self.place, self.snapshots = head["token"], 0, self.snapshots + 1
        return True

    async def read(self, get: Get, pages: float) -> bool:
        """Read a snapshot if there is none, and at most this number of pages; return whether the last one was met.

        Where the position is void, `get` raises Gone, and the copy begins anew.
        """
        if not self.token:
            await self.begin(get)
        while pages > 0:
            pages -= 1
            try:
                if await self.page(get):
                    return True
            except Gone:
                self.token = ""
                await self.begin(get)
        return False

    async def page(self, get: Get) -> bool:
        """Apply the next page of changes; return whether it is the last."""
        parameters = {"since": self.token, "page_size": str(self.size), **self.market}
        page = orjson.loads(await get("changes", parameters))
        for change in page["changes"]:
            assert change["sequence"] >= self.place, f"before the last change: {change} {self}"
            self.place = change["sequence"]
            if "reason" in change:
                self.records.pop(change["id"], None)
            else:
                self.records[change["id"]] = self._kept(change["record"])
        self.token = page["next"]
        return bool(page["at_end"])

    def _kept(self, record: dict[str, Any]) -> Any:
        return record if self.kept is None else record[self.kept]


def differences(true: Mapping[str, Any], copied: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the identifiers whose records differ, with the true and the copied one."""
    found = {name: (true.get(name), copied.get(name)) for name in {**true, **copied}}
    return {name: both for name, both in found.items() if both[0] != both[1]}


@dataclass
class FeedFollowers:
    """Consumers that follow both feeds through every fault, each with a copy of its own."""

    session: aiohttp.ClientSession
    copies: dict[str, SnapshotCopy] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    stopping: bool = False

    async def follow(self, alias: str) -> None:
        """Copy a feed, and follow its changes until stopped; then read the last ones."""
        copy = self.copies[alias] = SnapshotCopy(alias, _PAGE, kept=None)
        while not copy.take(await self._get(f"snapshot/{alias}", {})):
            pass
        is_last = False
        while not is_last:
            is_last = self.stopping
            while not await copy.page(self._get):
                pass
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _get(self, path: str, parameters: dict[str, str]) -> bytes:
        while True:
            try:
                async with self.session.get(f"/v1/{path}", params=parameters) as response:
                    body = await response.read()
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if response.status == 200:
                return body
            if response.status not in {503, 504}:
                raise AssertionError(f"{path}: {response.status} {body[:300]!r}")
            await asyncio.sleep(float(response.headers["Retry-After"]))

    async def finish(self) -> dict[str, dict[str, Any]]:
        """Let them read what is left, and return the copies by alias."""
        self.stopping = True
        async with asyncio.timeout(_LONGEST_SECONDS):
            await asyncio.gather(*self.tasks)
        return {alias: copy.records for alias, copy in self.copies.items()}


@asynccontextmanager
async def following(url: str, key: str) -> AsyncIterator[FeedFollowers]:
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(url, headers={"x-api-key": key}, timeout=timeout) as session:
        followers = FeedFollowers(session)
        followers.tasks = [asyncio.create_task(followers.follow(feed.alias)) for feed in FEEDS]
        try:
            yield followers
        finally:
            for task in followers.tasks:
                task.cancel()
            await asyncio.gather(*followers.tasks, return_exceptions=True)
