"""The thread that writes the pages of a publication, on a disk that is full."""

import asyncio
import threading
from collections.abc import Callable
from typing import cast

import pytest

from service.publishing.files import PublicationFiles, ThreadedWriter

PAGES = 5


class FullDisk:
    """Files that take no page; `is_full` is set once each page was refused."""

    def __init__(self) -> None:
        """Refuse nothing yet."""
        self.is_full, self._left = threading.Event(), PAGES

    def add(self, _lines: bytes) -> None:
        """Raise OSError."""
        self._left -= 1
        if not self._left:
            self.is_full.set()
        raise OSError(28, "No space left on device")


async def write_pages(disk: FullDisk) -> None:
    """Write pages, and read their errors once all have one."""
    async with ThreadedWriter(cast("PublicationFiles", disk)) as writer:
        for _ in range(PAGES):
            await writer.add(b"{}\n")
        await asyncio.to_thread(disk.is_full.wait)
        await writer.flush()


async def test_an_error_of_several_pages_is_raised_once_and_not_logged(loop_log: Callable[[], list[str]]) -> None:
    with pytest.raises(OSError, match="No space left"):
        await write_pages(FullDisk())
    assert loop_log() == []
