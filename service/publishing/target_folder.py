"""The folder that publications are written to: its lock, its new files, and their modes."""

import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from cluster.private_files import open_private
from service.exports.export_folder import ExportFolder
from service.exports.publications import Publications
from service.publishing.errors import PublishLocked, report_target_errors
from service.publishing.run_log import FolderRunLog
from service.publishing.typed_tables import OpenTables

_LOCK_NAME = ".lock"
_PRIVATE = 0o700


class TargetFolder:
    """A folder that one process publishes to. Its mode decides who may read what is below: private by default."""

    def __init__(self, root: Path, open_tables: OpenTables | None = None) -> None:
        """Publish below `root`, which `locked` creates; with `open_tables` typed tables, too."""
        self.root, self.open_tables = root, open_tables
        self.publications = Publications(ExportFolder(root))

    def __str__(self) -> str:
        """Return the folder."""
        return str(self.root)

    @asynccontextmanager
    async def locked(self, _note: Callable[[str], None]) -> AsyncIterator[None]:
        """Create the folder and hold its lock; raise PublishLocked if another process does."""
        with report_target_errors(self):
            self.root.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            handle = os.open(self.root / _LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise PublishLocked(f"Another `brokerage index publish` is writing to {self.root}.") from None
        finally:
            os.close(handle)

    def folder(self, *names: str) -> Path:
        """Return a folder below, created with the mode of the root."""
        path = self.root
        for name in names:
            path /= name
            if not path.is_dir():
                path.mkdir()
                path.chmod(self.root.stat().st_mode & 0o777)
        return path

    def create(self, path: Path) -> IO[bytes]:
        """Open a new file below for writing, readable as the root is."""
        mode = self.root.stat().st_mode & 0o666
        file: IO[bytes] = open(path, "wb", opener=open_private)  # noqa: SIM115 - the caller closes it
        path.chmod(mode)
        return file

    def complete(self, paths: Iterable[Path]) -> None:
        """Leave files where they are: they are on the disk."""

    def replace(self, path: Path, content: bytes) -> None:
        """Write a small file so that its readers see either the earlier or the new content, whole."""
        part = path.with_name(f"{path.name}.part")
        with self.create(part) as file:
            file.write(content)
            flush_to_disk(file)
        part.replace(path)
        flush_folder(path.parent)

    def companies(self) -> list[str]:
        """Return the names of all folders."""
        return [path.name for path in self.root.iterdir() if path.is_dir()]

    def names(self, folder: Path) -> list[str]:
        """Return the names of the files in a folder; an empty list if it does not exist."""
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []

    def delete(self, path: Path) -> None:
        """Delete a file, if it exists."""
        path.unlink(missing_ok=True)

    def remove_empty(self, folder: Path) -> None:
        """Delete a folder if it is empty."""
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()

    def run_log(self) -> FolderRunLog:
        """Return what a run that was killed has published."""
        return FolderRunLog(self.root)


def flush_to_disk(file: IO[bytes]) -> None:
    """Wait until a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
