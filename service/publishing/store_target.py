"""An object store to publish to, one publisher at a time by conditional writes."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from cluster.private_files import open_private
from service.exports.object_store import PATIENT, QUICK, ObjectStore, open_store, reason
from service.exports.publications import Publications, media_type
from service.exports.stores import ExportStore
from service.publishing.target import (
    LOG_NAME,
    RESUME_SECONDS,
    OpenTables,
    PublishError,
    PublishLocked,
    PublishUnavailable,
    scratch_folder,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode, UpdateVersion


@contextmanager
def report_store_errors(url: str) -> Iterator[None]:
    """Turn errors that repeat into PublishError, others into PublishUnavailable; FileNotFoundError stays."""
    # An optional dependency.
    from obstore import exceptions  # noqa: PLC0415

    try:
        yield
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, exceptions.NotSupportedError) as error:
        raise PublishError(f"{url} refuses: {reason(error)}.") from error
    except exceptions.BaseError as error:
        raise PublishUnavailable(f"{url} cannot be used: {reason(error)}.") from error


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
    """The lock of one run. `renew` may be called by any thread.

    It needs conditional writes, which S3, GCS and Azure have; a store that ignores the conditions is refused. No clocks
    are compared: who finds the lock waits until it is renewed, or has not been for EXPIRY_SECONDS.
    """

    def __init__(self, store: ObjectStore, url: str) -> None:
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


# Parts of a file that are sent at a time, of five megabytes each.
_PARTS = 4


class TargetStore:
    """An object store that one process publishes to. A file and its typed tables lie in a folder until they are whole.

    The folder is on this host, below that of temporary files; what a run that was killed has left there is deleted.
    """

    def __init__(self, url: str, open_tables: OpenTables | None = None) -> None:
        """Publish below `url`; with `open_tables` typed tables, too. Raise ValueError for a URL that cannot be used."""
        self._url, self.open_tables = url, open_tables
        # Manifests are written while the lock is held: they may not take longer than it lasts.
        self._store, self._uploads = open_store(url, QUICK), open_store(url, PATIENT)
        # No URL is signed.
        self.publications = Publications(ExportStore(url, url_seconds=1))
        self._lock = StoreLock(self._store, url)
        # That of a run, once it is locked.
        self.root = Path(os.devnull)

    def __str__(self) -> str:
        return self._url

    @asynccontextmanager
    async def locked(self, note: Callable[[str], None]) -> AsyncIterator[None]:
        """Hold the lock of the store; raise PublishLocked if another process does."""
        async with self._lock.held(note):
            with scratch_folder() as self.root:
                yield

    def folder(self, *names: str) -> Path:
        path = self.root.joinpath(*names)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def create(self, path: Path) -> IO[bytes]:
        """Open a new file on this host for writing."""
        return open(path, "wb", opener=open_private)

    def complete(self, paths: Iterable[Path]) -> None:
        """Upload files, and delete them here."""
        for path in paths:
            with report_store_errors(self._url):
                kind = {"Content-Type": media_type(path.name)}
                self._uploads.put(self._key(path), path, attributes=kind, max_concurrency=_PARTS)
            path.unlink()

    def replace(self, path: Path, content: bytes) -> None:
        """Write an object, which its readers see whole; raise PublishLocked if the lock was lost."""
        self._lock.renew()
        with report_store_errors(self._url):
            self._store.put(self._key(path), content, attributes={"Content-Type": media_type(path.name)})

    def companies(self) -> list[str]:
        """Return the names of all folders."""
        with report_store_errors(self._url):
            return [*self._store.list_with_delimiter()["common_prefixes"]]

    def contents(self, folder: Path) -> dict[str, float]:
        """Return the objects in a folder, and the files on this host that are not complete; times are the store's."""
        local = {path.name: path.lstat().st_mtime for path in folder.iterdir()} if folder.is_dir() else {}
        with report_store_errors(self._url):
            found = self._store.list_with_delimiter(self._key(folder))["objects"]
        return local | {stored["path"].rpartition("/")[2]: stored["last_modified"].timestamp() for stored in found}

    def delete(self, path: Path) -> None:
        """Delete an object, and the file of its name on this host, if they exist."""
        path.unlink(missing_ok=True)
        _delete(self._store, self._url, self._key(path))

    def remove_empty(self, folder: Path) -> None:
        """Do nothing: a folder without objects does not exist."""

    def run_log(self) -> StoreRunLog:
        """Return what a run that was killed has published."""
        return StoreRunLog(self._store, self._url)

    def _key(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


class StoreRunLog:
    """An empty object for each publication of a run, since no object can be appended to."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._store, self._url = store, url
        found = self._objects()
        newest = max((stored["last_modified"].timestamp() for stored in found), default=0.0)
        self.done = {stored["path"].partition("/")[2] for stored in found}
        if time.time() - newest > RESUME_SECONDS:
            self.finish()

    def _objects(self) -> list[ObjectMeta]:
        with report_store_errors(self._url):
            return [stored for some in self._store.list(LOG_NAME) for stored in some]

    def add(self, publication: str) -> None:
        """Write its object."""
        self.done.add(publication)
        with report_store_errors(self._url):
            self._store.put(f"{LOG_NAME}/{publication}", b"")

    def finish(self) -> None:
        """Delete all objects."""
        for publication in self.done:
            _delete(self._store, self._url, f"{LOG_NAME}/{publication}")
        self.done = set()


def _delete(store: ObjectStore, url: str, key: str) -> None:
    with report_store_errors(url):
        try:
            store.delete(key)
        except FileNotFoundError:
            return
