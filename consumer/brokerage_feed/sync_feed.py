"""The feed without `await`: the same code, on an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import AsyncGeneratorType
from typing import Any, Self, TypeVar, cast

from brokerage_feed.feed import Feed
from brokerage_feed.http_client import MAX_LINE_BYTES
from brokerage_feed.limits import FeedLimits
from brokerage_feed.messages import (
    Change,
    ChangeBatch,
    DigestResponse,
    ListedFile,
    PublishedFiles,
    SnapshotHeader,
    SnapshotRecord,
)

Item = TypeVar("Item")
# Changing threads costs more than reading a record, so many are taken at once.
_RECORDS_AT_ONCE = 500


class SyncFeed:
    """`Feed` for programs without an event loop, and for those whose own loop is running, such as notebooks.

    Use it from one thread at a time, and within `with`. It raises what `Feed` raises; `token` is as of `Feed`.
    """

    def __init__(  # noqa: PLR0913 - options, all but three by name
        self,
        url: str,
        key: str,
        scope: Mapping[str, str] | None = None,
        *,
        attempts: int = 8,
        allow_http: bool = False,
        limits: FeedLimits | None = None,
    ) -> None:
        """Use the service at `url`, as `Feed` does."""
        self._feed = Feed(url, key, scope, attempts=attempts, allow_http=allow_http, limits=limits)
        self.token = ""
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="brokerage-feed", daemon=True)
        self._thread.start()
        try:
            self._wait(self._feed.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_details: object) -> None:
        try:
            self._wait(self._feed.__aexit__())
            self._wait(self._loop.shutdown_asyncgens())
        finally:
            self._stop()

    def snapshot(self, resource: str, after: str | None = None) -> tuple[SnapshotHeader, Iterator[SnapshotRecord]]:
        """Return the header of a snapshot and its records, as `Feed.snapshot` does."""
        header, records = self._wait(self._feed.snapshot(resource, after))
        return header, self._iterate(records, _RECORDS_AT_ONCE)

    def records(self, resource: str) -> Iterator[dict[str, Any]]:
        """Yield all records of a resource as dictionaries, as `Feed.records` does."""
        header, items = self.snapshot(resource)
        for item in items:
            yield item.as_dict()
        self.token = header.token

    def changes(
        self,
        since: Sequence[str] = (),
        *,
        resources: Sequence[str] = (),
        changed: Sequence[str] = (),
        wait: int = 0,
        page_size: int = 1000,
    ) -> Iterator[ChangeBatch]:
        """Yield pages up to the last published change, as `Feed.changes` does."""
        pages = self._feed.changes(since, resources=resources, changed=changed, wait=wait, page_size=page_size)
        return self._iterate(pages, 1)

    def follow(
        self, since: Sequence[str] = (), *, resources: Sequence[str] = (), changed: Sequence[str] = ()
    ) -> Iterator[Change]:
        """Yield changes one by one as they are published, without end, as `Feed.follow` does."""
        following = self._feed.follow_pages(since, resources=resources, changed=changed)
        with closing(self._iterate(following, 1)) as pages:
            for page in pages:
                yield from page.changes
                self.token = page.next

    def __iter__(self) -> Iterator[Change]:
        return self.follow([self.token] if self.token else ())

    def published(self, resource: str, since: str = "") -> PublishedFiles:
        """Return the published files of one company's resource, as `Feed.published` does."""
        return self._wait(self._feed.published(resource, since))

    def download(self, resource: str, file: ListedFile, path: Path) -> None:
        """Download a published file and verify it, as `Feed.download` does."""
        self._wait(self._feed.download(resource, file, path))

    def digest(self, resource: str, prefixes: Sequence[str] = ()) -> DigestResponse:
        """Return the digest of a resource, as `Feed.digest` does."""
        return self._wait(self._feed.digest(resource, prefixes))

    def _iterate(self, items: AsyncGenerator[Item, None], count: int) -> Generator[Item, None, None]:
        try:
            while True:
                taken, error = self._wait(_take(items, count))
                yield from taken
                if isinstance(error, StopAsyncIteration):
                    return
                if error is not None:
                    raise error
        finally:
            if not self._loop.is_closed():
                self._wait(_close(items))

    def _wait(self, coroutine: Coroutine[None, None, Item]) -> Item:
        """Return the result of a coroutine; cancel it if the caller is interrupted."""
        running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _take(items: AsyncGenerator[Item, None], count: int) -> tuple[list[Item], Exception | None]:
    """Return the next items, and what ended them early: an error comes after the items before it."""
    taken, size = list[Item](), 0
    try:
        while len(taken) < count and size < MAX_LINE_BYTES:
            taken.append(item := await anext(items))
            size += item.size if isinstance(item, SnapshotRecord) else 0
    except Exception as error:
        return taken, error
    return taken, None


async def _close(items: AsyncGenerator[Item, None]) -> None:
    """Close a generator, after the end of a step that was cancelled."""
    while cast("AsyncGeneratorType[Item, None]", items).ag_running:  # noqa: ASYNC110 - nothing reports its end
        await asyncio.sleep(0.001)
    await items.aclose()
