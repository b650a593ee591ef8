"""The object store that publications are written to: whole files are uploaded, and manifests last."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cluster.private_files import open_private
from service.exports.export_store import ExportStore
from service.exports.manifest import media_type
from service.exports.object_store import PATIENT, QUICK, ObjectStore, open_store
from service.exports.publications import Publications
from service.publishing.run_log import LOG_NAME, RESUME_SECONDS
from service.publishing.scratch_folder import scratch_folder
from service.publishing.store_errors import report_store_errors
from service.publishing.store_lock import StoreLock
from service.publishing.typed_tables import OpenTables

if TYPE_CHECKING:
    from obstore import ObjectMeta

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
        """Return the URL."""
        return self._url

    @asynccontextmanager
    async def locked(self, note: Callable[[str], None]) -> AsyncIterator[None]:
        """Hold the lock of the store; raise PublishLocked if another process does."""
        async with self._lock.held(note):
            with scratch_folder() as self.root:
                yield

    def folder(self, *names: str) -> Path:
        """Return a folder on this host."""
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

    def names(self, folder: Path) -> list[str]:
        """Return the names of the objects in a folder, and of the files on this host that are not complete."""
        local = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
        with report_store_errors(self._url):
            found = self._store.list_with_delimiter(self._key(folder))["objects"]
        return sorted(local | {each["path"].rpartition("/")[2] for each in found})

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
        """Read what a run has left that was killed not long ago."""
        self._store, self._url = store, url
        found = self._objects()
        newest = max((each["last_modified"].timestamp() for each in found), default=0.0)
        self.done = {each["path"].partition("/")[2] for each in found}
        if time.time() - newest > RESUME_SECONDS:
            self.finish()

    def _objects(self) -> list[ObjectMeta]:
        with report_store_errors(self._url):
            return [each for some in self._store.list(LOG_NAME) for each in some]

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
