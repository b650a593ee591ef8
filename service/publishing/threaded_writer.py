"""Writes pages of lines to the files of a publication in a thread."""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from service.publishing.publication_files import PublicationFiles

# Some 40 MB. A row group of Parquet is written at once, every tenth page or so; reading continues meanwhile.
_WAITING_PAGES = 12


class ThreadedWriter:
    """Compresses and writes pages in a thread, in their order, while the next ones are read."""

    def __init__(self, files: PublicationFiles) -> None:
        """Write pages to `files`."""
        self._files, self._thread = files, ThreadPoolExecutor(1)
        self._writing = deque[asyncio.Future[None]]()

    async def __aenter__(self) -> Self:
        """Do nothing yet."""
        return self

    async def __aexit__(self, *_details: object) -> None:
        """Wait until nothing is written any more; pages that were not begun are dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        # The first error was raised already; those of other pages, often the same, must not be logged as lost.
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def add(self, page: bytes) -> None:
        """Write a page soon; raise the error of an earlier one."""
        if len(self._writing) == _WAITING_PAGES:
            await self._writing.popleft()
        self._writing.append(asyncio.get_running_loop().run_in_executor(self._thread, self._files.add, page))

    async def flush(self) -> None:
        """Wait until all pages are written."""
        while self._writing:
            await self._writing.popleft()
