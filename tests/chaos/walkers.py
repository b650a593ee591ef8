"""Consumers: each walks its feed again and again, waits as it is told, and goes on behind the last record it has."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp

from tests.chaos.judge import Judge, Page, Walked
from tests.chaos.tally import GOOD, Tally

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.chaos.truth import Walk

_TOLD = (503, 504)  # statuses that must come with Retry-After
_UNTOLD_SECONDS = 1.0  # the wait after a broken connection
_LAST_WALK_SECONDS = 120.0
_CLIENT_SECONDS = 60.0  # longer than any deadline: it is the service that has to answer in time


@dataclass
class Readers:
    """What all walkers share. `pause` is in seconds between an answer and the next request."""

    session: aiohttp.ClientSession
    judge: Judge
    pause: float
    tally: Tally = field(default_factory=Tally)
    stopping: bool = False
    walks: int = 0  # that came to their end

    async def walk(self, walk: Walk) -> None:
        """Walk until it is time to stop, and then to the end of the walk that is under way."""
        while not self.stopping:
            walked = Walked(time.monotonic())
            while not await self._step(walk, walked.ids):  # noqa: ASYNC110 - a consumer's own pace
                await asyncio.sleep(self.pause)
            self.judge.whole(walk, walked)
            self.walks += 1

    async def _step(self, walk: Walk, ids: list[str]) -> bool:
        """Ask for one page and take its records; True when it says that it is the last."""
        after, asked_at = ids[-1] if ids else None, time.monotonic()
        body = await self._ask(walk, after)
        if body is None:
            return False
        try:
            page = Page.of(walk, body, asked_at)
        except (ValueError, KeyError, TypeError) as error:
            self.judge.unreadable(walk, after, error)
            return False
        self.judge.page(walk, after, page)
        ids += page.ids
        if not page.ids and not page.final:
            self.judge.find(f"{walk} behind {after}: a page without records that is not the last, which leads nowhere")
        return page.final

    async def _ask(self, walk: Walk, after: str | None) -> bytes | None:
        """Return the body of a page; None when the request failed, after the wait that was asked for."""
        started = time.monotonic()
        sent = walk.parameters | ({"last_platform_listing_id": after} if after else {})
        try:
            async with self.session.get(f"/v1{walk.path}", params=sent) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.tally.add(started, type(error).__name__, walk.path)
            await asyncio.sleep(_UNTOLD_SECONDS)
            return None
        if response.status == 200:
            self.tally.add(started, GOOD, walk.path)
            return body
        self.tally.add(started, str(response.status), walk.path)
        if response.status < 500:
            self.judge.find(f"{walk} behind {after}: status {response.status}: {body[:200]!r}")
        await asyncio.sleep(self._told(response))
        return None

    def _told(self, response: aiohttp.ClientResponse) -> float:
        told = response.headers.get("Retry-After")
        if told is None:
            self.tally.untold += response.status in _TOLD
            return _UNTOLD_SECONDS
        return float(told)


@asynccontextmanager
async def reading(url: str, key: str, walks: Sequence[Walk], judge: Judge, pause: float) -> AsyncIterator[Readers]:
    """Let one walker for each walk read a service; at the end each still finishes the walk that is under way."""
    timeout = aiohttp.ClientTimeout(total=_CLIENT_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers={"x-api-key": key}, timeout=timeout, connector=connector) as session:
        readers = Readers(session, judge, pause)
        walkers = [asyncio.create_task(readers.walk(walk)) for walk in walks]
        try:
            yield readers
            readers.stopping, readers.pause = True, 0.0
            _, late = await asyncio.wait(walkers, timeout=_LAST_WALK_SECONDS)
            if late:
                judge.find(f"{len(late)} walks did not come to their end within {_LAST_WALK_SECONDS:.0f} seconds")
            for walker in set(walkers) - late:
                walker.result()
        finally:
            for walker in walkers:
                walker.cancel()
            await asyncio.gather(*walkers, return_exceptions=True)
