"""A consumer that keeps copies of both feeds by `/snapshot` and `/changes`, through every fault."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from mappings import LISTING, SOLD_LISTING, Resource

_PAUSE_SECONDS = 0.3
_PAGE = "50"
_LONGEST_SECONDS = 120.0


@dataclass
class ChangeFollower:
    """Copies of the feeds by alias, each of the records by identifier."""

    session: aiohttp.ClientSession
    copies: dict[str, dict[str, Any]] = field(default_factory=dict)
    stopping: bool = False

    async def follow(self, resource: Resource) -> None:
        """Copy a feed, and follow its changes until stopped; then read the last ones."""
        token, is_last = await self._snapshot(resource), False
        while not is_last:
            is_last = self.stopping
            at_end = False
            while not at_end:
                page = orjson.loads(await self._get("changes", {"since": token, "page_size": _PAGE}))
                for change in page["changes"]:
                    self._apply(self.copies[resource.alias], change)
                token, at_end = page["next"], page["at_end"]
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _snapshot(self, resource: Resource) -> str:
        while True:
            lines = [orjson.loads(line) for line in (await self._get(f"snapshot/{resource.alias}", {})).splitlines()]
            head, *records, tail = lines
            if tail.get("count") == head["count"] == len(records):
                self.copies[resource.alias] = {line["id"]: line["record"] for line in records}
                return str(head["token"])

    def _apply(self, copy: dict[str, Any], change: dict[str, Any]) -> None:
        if "reason" in change:
            copy.pop(change["id"], None)
        else:
            copy[change["id"]] = change["record"]

    async def _get(self, path: str, parameters: dict[str, str]) -> bytes:
        """Return a body, after as many attempts as it takes."""
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


@dataclass
class FollowedFeeds:
    """Followers of both feeds at work."""

    follower: ChangeFollower
    tasks: list[asyncio.Task[None]]

    async def finish(self) -> dict[str, dict[str, Any]]:
        """Let them read what is left, and return the copies by alias."""
        self.follower.stopping = True
        async with asyncio.timeout(_LONGEST_SECONDS):
            await asyncio.gather(*self.tasks)
        return self.follower.copies


@asynccontextmanager
async def following(url: str, key: str) -> AsyncIterator[FollowedFeeds]:
    """Follow both feeds."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(url, headers={"x-api-key": key}, timeout=timeout) as session:
        follower = ChangeFollower(session)
        tasks = [asyncio.create_task(follower.follow(resource)) for resource in (LISTING, SOLD_LISTING)]
        try:
            yield FollowedFeeds(follower, tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
