"""The download of a published file: resumed after the bytes that are there, and verified by its hash."""

import asyncio
from collections.abc import Mapping
from hashlib import file_digest
from http import HTTPStatus
from pathlib import Path

import aiohttp

from brokerage_feed.errors import CopyError, NoProgress
from brokerage_feed.http_client import RETRYABLE, AttemptBackoff, FeedHttpClient, TruncatedResponse
from brokerage_feed.messages import ListedFile
from brokerage_feed.private_files import create_file

_READ_BYTES = 1 << 20


class FileDownload:
    """The download of one file to a path, which may hold its first bytes."""

    def __init__(self, client: FeedHttpClient, file: ListedFile, path: Path) -> None:
        """Use an open client."""
        self._client, self._file, self._path = client, file, path

    async def run(self, url: str, parameters: Mapping[str, str], backoff: AttemptBackoff) -> None:
        """Fetch what is missing; raise CopyError if the disk is full, and NoProgress if the file is never as listed."""
        for _ in range(2):
            await self._fetch(url, parameters, backoff)
            if await asyncio.to_thread(self._has_hash):
                return
            # A part of another file, or a damaged one.
            await asyncio.to_thread(self._path.unlink)
        raise NoProgress(f"{url} does not have the SHA-256 in the list of files.")

    async def _fetch(self, url: str, parameters: Mapping[str, str], backoff: AttemptBackoff) -> None:
        while (present := await asyncio.to_thread(self._present)) < self._file.bytes:
            try:
                await self._append(url, parameters, present)
                if await asyncio.to_thread(self._present) < self._file.bytes:
                    raise TruncatedResponse(f"{url} ended early")
            except RETRYABLE as error:
                if await asyncio.to_thread(self._present) > present:
                    backoff.reset()
                await backoff.wait(error)

    async def _append(self, url: str, parameters: Mapping[str, str], present: int) -> None:
        """Request the bytes after the present ones, or all of them if the service does not know what they are of."""
        headers = {"Range": f"bytes={present}-", "If-Range": f'"{self._file.sha256}"'} if present else {}
        async with self._client.get_file(url, parameters, headers) as response:
            start = present if response.status == HTTPStatus.PARTIAL_CONTENT else 0
            await self._write(response, start)

    async def _write(self, response: aiohttp.ClientResponse, start: int) -> None:
        try:
            with self._path.open("r+b", buffering=0) as out:
                out.seek(start)
                out.truncate()
                room = self._file.bytes - start
                async for chunk in response.content.iter_chunked(_READ_BYTES):
                    await asyncio.to_thread(out.write, chunk[:room])
                    room -= len(chunk)
                    if room <= 0:
                        return
        except OSError as error:
            if isinstance(error, RETRYABLE):
                raise
            raise CopyError(f"{self._path} cannot be written: {error}.") from error

    def _present(self) -> int:
        """Return how many bytes are there; more than listed are of another file."""
        create_file(self._path)
        size = self._path.stat().st_size
        if size <= self._file.bytes:
            return size
        self._path.write_bytes(b"")
        return 0

    def _has_hash(self) -> bool:
        with self._path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest() == self._file.sha256
