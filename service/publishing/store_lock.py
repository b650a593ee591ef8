"""The lock of an object store: an object that its owner renews, and that others replace only if it stays the same.

It needs conditional writes, which S3, GCS and Azure have; a store that ignores the conditions is refused. No clocks are
compared: who finds the lock waits until it is renewed, or has not been for EXPIRY_SECONDS.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from service.exports.object_store import ObjectStore, reason
from service.publishing.errors import PublishError, PublishLocked
from service.publishing.store_errors import report_store_errors

if TYPE_CHECKING:
    from obstore import PutMode, UpdateVersion

_NAME = ".lock"
# The owner renews three times in it; a write takes at most a third of it (`service.exports.object_store.QUICK`).
EXPIRY_SECONDS = 30.0
_POLL_SECONDS = 1.0
# No version of an object, in the forms of S3 and Azure, and of GCS.
_NO_VERSION: UpdateVersion = {"e_tag": '"0"', "version": "1"}


class _SeenLock(NamedTuple):
    version: UpdateVersion
    owner: str


class StoreLock:
    """The lock of one run. `renew` may be called by any thread."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        """Lock nothing yet; requests take as long as QUICK."""
        self._store, self._url = store, url
        self._owner = f"{socket.gethostname()}, process {os.getpid()} ({secrets.token_hex(8)})"
        self._version: UpdateVersion = {}
        self._renewing = threading.Lock()

    @asynccontextmanager
    async def held(self, note: Callable[[str], None]) -> AsyncIterator[None]:
        """Hold the lock, once its earlier owner is gone; raise PublishLocked if that one renews it."""
        await self._acquire(note)
        task = asyncio.create_task(self._renew_regularly())
        try:
            await asyncio.to_thread(self._require_conditions)
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            await asyncio.to_thread(self._release)

    async def _acquire(self, note: Callable[[str], None]) -> None:
        expires, first = time.monotonic() + EXPIRY_SECONDS, None
        while not await asyncio.to_thread(self._put, "create"):
            seen = await asyncio.to_thread(self._read)
            if first is None and seen is not None:
                first = seen
                note(f"{self._url} was locked by {seen.owner}. Waiting up to {EXPIRY_SECONDS:.0f} s if it still runs.")
            if seen is not None and seen != first:
                raise self._locked(seen.owner)
            if time.monotonic() >= expires:
                if seen is not None and await asyncio.to_thread(self._put, seen.version):
                    return
                raise self._locked("one that has just begun" if seen is None else seen.owner)
            await asyncio.sleep(_POLL_SECONDS)

    def renew(self) -> None:
        """Renew the lock; raise PublishLocked if another run has taken it over, which ends this one."""
        with self._renewing:
            if not self._put(self._version):
                seen = self._read()
                raise self._locked("a run that has ended" if seen is None else seen.owner)

    async def _renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_SECONDS / 3)
            # What matters is whether it can be renewed before a manifest is replaced.
            with suppress(PublishError):
                await asyncio.to_thread(self.renew)

    def _require_conditions(self) -> None:
        """Raise PublishError unless the store refuses to create the lock again, and to replace another version."""
        if self._replaces("create") or self._replaces(_NO_VERSION):
            raise PublishError(
                f"{self._url} ignores the conditions of writes, which keep two publications apart. Publish to a store "
                "that has conditional writes, or to a folder."
            )

    def _release(self) -> None:
        # Another run may have taken it over, and an object store that is away lets it expire.
        with suppress(PublishError, FileNotFoundError):
            self.renew()
            with report_store_errors(self._url):
                self._store.delete(_NAME)

    def _put(self, mode: PutMode) -> bool:
        """Write the lock; return False if it is of another run."""
        if self._replaces(mode):
            return True
        # A response that was lost: the store has done what its client has repeated.
        seen = self._read()
        if seen is None or seen.owner != self._owner:
            return False
        self._version = seen.version
        return True

    def _replaces(self, mode: PutMode) -> bool:
        """Write the lock under a condition; return whether it was met."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError  # noqa: PLC0415 - an optional dependency

        # The tag of an object of the same content can be the same.
        content = f"{self._owner}\n{time.time_ns()}\n".encode()
        with report_store_errors(self._url):
            try:
                self._version = _version(self._store.put(_NAME, content, mode=mode))
            except (AlreadyExistsError, PreconditionError):
                return False
            except FileNotFoundError as error:
                if mode == "create":
                    raise PublishError(f"{self._url} does not exist: {reason(error)}.") from error
                return False
        return True

    def _read(self) -> _SeenLock | None:
        with report_store_errors(self._url):
            try:
                found = self._store.get(_NAME)
                return _SeenLock(_version(found.meta), bytes(found.bytes()).decode().partition("\n")[0])
            except FileNotFoundError:
                return None

    def _locked(self, owner: str) -> PublishLocked:
        return PublishLocked(f"Another `brokerage index publish` is writing to {self._url}: {owner}.")


def _version(stated: Mapping[str, object]) -> UpdateVersion:
    """Return what a store calls the version of an object: a tag, a number, or both."""
    return cast("UpdateVersion", {name: stated[name] for name in _NO_VERSION if stated[name] is not None})
