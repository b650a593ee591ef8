"""Where published files are: a folder or an object store."""

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import IO

from aiohttp import web

from service.exports.files import FilePayload, content_headers
from service.exports.object_store import QUICK, is_store_url, open_store, reason
from service.exports.publications import (
    LATEST_NAME,
    Delivery,
    FoundFile,
    Publications,
    StoreUnavailable,
    require_small,
)
from service.exports.settings import ExportsSettings
from service.feed.streaming import StreamedResponse

_log = logging.getLogger("service")


class ExportFolder:
    """Published files below a folder. They lie on a disk, whose errors are those of single files."""

    def __init__(self, root: Path) -> None:
        """Read below `root`."""
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    async def read(self, key: str) -> bytes:
        """Return a small file; raise OSError."""
        return await asyncio.to_thread(_read, self._root, key)

    async def deliver(self, found: FoundFile, delivery: Delivery) -> web.Response:
        """Return the response that sends a part of a file; it holds a slot until its body is closed."""
        # Before the response starts: afterwards it could only be aborted.
        slot, part = delivery.slot.hold(), delivery.part
        try:
            opened = await asyncio.to_thread(open_below, self._root, found.key)
        except BaseException as error:
            slot.release()
            if isinstance(error, OSError) and error.errno in REFUSED:
                _log.error("%s/%s is not served: %s.", self._root, found.key, error.strerror)
                raise FileNotFoundError(found.key) from error
            raise
        payload = FilePayload(opened, part, delivery.limits, slot)
        headers = {**delivery.validators, **content_headers(found.file, part)}
        return StreamedResponse(payload, headers, status=part.status)

    async def check(self) -> None:
        """Do nothing if the folder can be read and has files and folders only; raise OSError."""
        await asyncio.to_thread(_check, self._root)


# What `open_below` raises for what is no file below the folder: a link, also as one of the folders, a folder, a pipe.
REFUSED = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENXIO})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A pipe without a writer would be waited for.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_below(root: Path, key: str) -> IO[bytes]:
    """Open a regular file below a folder, without following links on the way; raise OSError.

    Others may write to the folder: a link would lend them what the service may read.
    """
    *folders, name = key.split("/")
    handle = os.open(root, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        file = os.open(name, _FILE, dir_fd=handle)
    finally:
        os.close(handle)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", key)
    return os.fdopen(file, "rb", buffering=0)


def _read(root: Path, key: str) -> bytes:
    with open_below(root, key) as file:
        require_small(key, os.fstat(file.fileno()).st_size)
        return file.read()


def _check(root: Path) -> None:
    next(root.iterdir(), None)
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise OSError(errno.EINVAL, f"{path.relative_to(root)} is a link or no regular file, and not served")


# Requests to the store at a time. Each holds a slot of requests for single records, which must not wait for a store
# that does not respond.
_REQUESTS = 32


class ExportStore:
    """Published files below a URL. A store that does not respond costs a request QUICK, and others nothing."""

    def __init__(self, url: str, url_seconds: int) -> None:
        """Open the store without a request to it. Downloads begin within `url_seconds` after their redirect."""
        self._url, self._url_seconds = url.rstrip("/"), url_seconds
        self._store = open_store(url, QUICK)
        self._running = 0

    def __str__(self) -> str:
        return self._url

    async def read(self, key: str) -> bytes:
        """Return a small object; raise OSError or StoreUnavailable."""
        from obstore import get_async  # noqa: PLC0415 - an optional dependency

        with self._request():
            async with asyncio.timeout(sum(QUICK)):
                found = await get_async(self._store, key)
                require_small(key, found.meta["size"])
                return bytes(await found.bytes_async())

    async def deliver(self, found: FoundFile, delivery: Delivery) -> web.Response:
        """Return a redirect to the file; raise StoreUnavailable if its URL cannot be signed.

        HEAD gets the headers of the file at once: a URL is signed for one method.
        """
        part, headers = delivery.part, {**delivery.validators}
        if delivery.is_head:
            headers |= {**content_headers(found.file, part), "Content-Length": str(part.length)}
            return web.Response(status=part.status, headers=headers)
        location = {"Location": await self._signed(found.key), "Cache-Control": "no-store"}
        return web.Response(status=HTTPStatus.TEMPORARY_REDIRECT, headers=headers | location)

    async def check(self) -> None:
        """Do nothing if the store can be read and URLs can be signed; raise FileNotFoundError or StoreUnavailable."""
        from obstore import list_with_delimiter_async  # noqa: PLC0415 - an optional dependency

        with self._request():
            async with asyncio.timeout(sum(QUICK)):
                await list_with_delimiter_async(self._store)
        await self._signed(LATEST_NAME)

    async def _signed(self, key: str) -> str:
        """Return a URL that lets anyone GET an object for some seconds; raise StoreUnavailable."""
        from obstore import sign_async  # noqa: PLC0415 - an optional dependency

        with self._request():
            # Some credentials have no key of their own: the store's provider signs.
            async with asyncio.timeout(sum(QUICK)):
                return await sign_async(self._store, "GET", key, timedelta(seconds=self._url_seconds))

    @contextmanager
    def _request(self) -> Iterator[None]:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - an optional dependency

        if self._running >= _REQUESTS:
            raise StoreUnavailable(f"{self._url} has not answered {_REQUESTS} requests yet.")
        self._running += 1
        try:
            yield
        except TimeoutError:
            raise StoreUnavailable(f"{self._url} did not respond within {sum(QUICK):.0f} s.") from None
        except BaseError as error:
            raise StoreUnavailable(f"{self._url} cannot be used: {reason(error)}.") from error
        finally:
            self._running -= 1


def open_publications(settings: ExportsSettings) -> Publications | None:
    """Return the publications at BROKERAGE_EXPORTS, None without it."""
    place = settings.exports
    if not place:
        return None
    return Publications(
        ExportStore(place, settings.exports_url_seconds) if is_store_url(place) else ExportFolder(Path(place))
    )
