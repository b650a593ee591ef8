"""Consumers that walk their feeds repeatedly, honour `Retry-After`, and continue after their last record."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from tests.simulation.oracle import FeedWalkSpec, PageOracle, ReceivedPage, WalkProgress
from tests.simulation.requests import GOOD, RequestTotals

_REPORTED = (503, 504)  # statuses that must come with Retry-After
_UNTOLD_SECONDS = 1.0  # the wait after a broken connection
_LAST_WALK_SECONDS = 120.0
_CLIENT_SECONDS = 60.0  # longer than any deadline: it is the service that has to answer in time


@dataclass
class FeedReaders:
    """State shared by all walkers. `pause` is the time between a response and the next request, in seconds."""

    session: aiohttp.ClientSession
    judge: PageOracle
    pause: float
    tally: RequestTotals
    stopping: bool = False
    walks: int = 0  # that came to their end

    async def walk(self, walk: FeedWalkSpec) -> None:
        """Walk until stopped, then finish the current walk."""
        while not self.stopping:
            walked = WalkProgress(time.monotonic())
            while not await self._step(walk, walked.ids):  # noqa: ASYNC110 - a consumer's own pace
                await asyncio.sleep(self.pause)
            self.judge.whole(walk, walked)
            self.walks += 1

    async def _step(self, walk: FeedWalkSpec, ids: list[str]) -> bool:
        """Request a page and store its records; return whether it is the last."""
        after, asked_at = ids[-1] if ids else None, time.monotonic()
        body = await self._ask(walk, after)
        if body is None:
            return False
        try:
            page = ReceivedPage.of(walk, body, asked_at)
        except (ValueError, KeyError, TypeError) as error:
            self.judge.unreadable(walk, after, error)
            return False
        self.judge.page(walk, after, page)
        ids += page.ids
        if not page.ids and not page.final:
            self.judge.find(f"{walk} behind {after}: a page without records that is not the last, which leads nowhere")
        return page.final

    async def _ask(self, walk: FeedWalkSpec, after: str | None) -> bytes | None:
        """Return the body of a page, or None if the request failed, after waiting for `Retry-After`."""
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
        await asyncio.sleep(self._reported(response))
        return None

    def _reported(self, response: aiohttp.ClientResponse) -> float:
        retry_after = response.headers.get("Retry-After")
        if retry_after is None:
            self.tally.untold += response.status in _REPORTED
            return _UNTOLD_SECONDS
        return float(retry_after)


@asynccontextmanager
async def reading(
    url: str,
    key: str,
    walks: Sequence[FeedWalkSpec],
    judge: PageOracle,
    pause: float,
    tally: RequestTotals | None = None,
) -> AsyncIterator[FeedReaders]:
    """Run one walker per walk; at the end, each finishes its current walk. Requests are added to `tally` if given."""
    timeout = aiohttp.ClientTimeout(total=_CLIENT_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers={"x-api-key": key}, timeout=timeout, connector=connector) as session:
        readers = FeedReaders(session, judge, pause, tally or RequestTotals())
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
