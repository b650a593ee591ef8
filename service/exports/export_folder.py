"""A folder of published files, which workers send themselves."""

import asyncio
import os
from pathlib import Path
from typing import IO

from aiohttp import web

from service.exports.file_headers import content_headers
from service.exports.file_payload import FilePayload
from service.exports.publications import Delivery, FoundFile
from service.feed.streaming import StreamedResponse


class ExportFolder:
    """Published files below a folder. They lie on a disk, whose errors are those of single files."""

    def __init__(self, root: Path) -> None:
        """Read below `root`."""
        self._root = root

    def __str__(self) -> str:
        """Return the folder."""
        return str(self._root)

    async def read(self, key: str) -> bytes:
        """Return a small file; raise OSError."""
        return await asyncio.to_thread((self._root / key).read_bytes)

    async def deliver(self, found: FoundFile, delivery: Delivery) -> web.Response:
        """Return the response that sends a part of a file; it holds a slot until its body is closed."""
        # Before the response starts: afterwards it could only be aborted.
        slot, part = delivery.slot.hold(), delivery.part
        try:
            opened = await asyncio.to_thread(_open, self._root / found.key)
        except BaseException:
            slot.release()
            raise
        payload = FilePayload(opened, part, delivery.limits, slot)
        headers = {**delivery.validators, **content_headers(found.file, part)}
        return StreamedResponse(payload, headers, status=part.status)

    async def check(self) -> None:
        """Do nothing if the folder can be read; raise OSError."""
        await asyncio.to_thread(os.listdir, self._root)


def _open(path: Path) -> IO[bytes]:
    return path.open("rb", buffering=0)
