"""Where a publication is written to, and the errors and log of a run that writes it."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from cluster.private_files import open_private
from service.exports.publications import Publications
from service.exports.stores import ExportFolder


class PublishError(Exception):
    """The publication cannot continue; the latest manifests stay as they were."""


class PublishUnavailable(PublishError):
    """Elasticsearch or the object store is unavailable, or there is nothing to publish yet."""


class PublishLocked(PublishError):
    """Another publication is writing to the target."""


@contextmanager
def report_target_errors(target: object) -> Iterator[None]:
    """Turn errors of a target, such as a full disk, into PublishError."""
    try:
        yield
    except OSError as error:
        raise PublishError(f"{target} cannot be used: {error}.") from error


class TypedTables(Protocol):
    """Writes the typed tables of some records."""

    def add(self, lines: bytes, /) -> None:
        """Add lines of a snapshot; raise ValueError for a value that is not of its column's type."""

    def finish(self) -> Mapping[str, int]:
        """Complete and close the files; return the rows of each table, the resource's own first."""

    def close(self) -> None:
        """Close the files, whatever they hold."""


class OpenTables(Protocol):
    """Opens the tables of a resource."""

    def __call__(self, resource: str, create: Callable[[str], IO[bytes]], /) -> TypedTables:
        """Return what writes them to the files that `create` opens by the name of a table."""


def open_own(path: str | Path, flags: int) -> int:
    """Open a file of a publication as `open(…, opener=open_own)` does; raise OSError for a link and for a pipe.

    Others may write to the folder.
    """
    return open_private(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


LOG_NAME = ".publishing"
# Seconds after which a run that was killed is not resumed: its publications would be too old.
RESUME_SECONDS = 6 * 3600


class RunLog(Protocol):
    """The publications of a run, each as `company/resource`. It is kept until the run ends."""

    done: set[str]

    def add(self, publication: str, /) -> None:
        """Note a publication."""

    def finish(self) -> None:
        """Forget the run."""


class UnkeptRunLog:
    """The log of a run of some companies, which publishes them whatever was published before."""

    def __init__(self) -> None:
        self.done = set[str]()

    def add(self, publication: str) -> None:
        """Keep nothing."""

    def finish(self) -> None:
        """Forget nothing."""


class FolderRunLog:
    """Lines of a file that is deleted at the end of the run."""

    def __init__(self, root: Path) -> None:
        self._path = root / LOG_NAME
        self.done = self._read()

    def _read(self) -> set[str]:
        if not self._path.exists() or time.time() - self._path.stat().st_mtime > RESUME_SECONDS:
            self._path.unlink(missing_ok=True)
            return set()
        # A kill can cut the last line.
        with open(self._path, encoding="utf-8", opener=open_own) as file:
            return {*file.read().split("\n")[:-1]}

    def add(self, publication: str) -> None:
        """Append a line."""
        with open(self._path, "a", encoding="utf-8", opener=open_own) as file:
            file.write(f"{publication}\n")

    def finish(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)


_PREFIX = f"brokerage-publish-{os.getuid()}-"
_ATTEMPTS = 10


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create the folder, below that of temporary files, and delete it at the end; raise PublishError.

    Its owner holds a lock of it, which ends with the process.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _delete_abandoned(left)
    with report_target_errors(tempfile.gettempdir()):
        path, handle = _create()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def _create() -> tuple[Path, int]:
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Another run may take it for abandoned in between.
        with suppress(OSError):
            handle = _locked(path)
            if path.is_dir():
                return path, handle
            os.close(handle)
    raise PublishError(f"No folder could be created in {tempfile.gettempdir()}.")


def _delete_abandoned(path: Path) -> None:
    # It may be in use, a link, or another user's.
    with suppress(OSError):
        handle = _locked(path)
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock of a folder; raise OSError if another one does."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


_LOCK_NAME = ".lock"
_PRIVATE = 0o700


class TargetFolder:
    """A folder that one process publishes to. Its mode decides who may read what is below: private by default."""

    def __init__(self, root: Path, open_tables: OpenTables | None = None) -> None:
        """Publish below `root`, which `locked` creates; with `open_tables` typed tables, too."""
        self.root, self.open_tables = root, open_tables
        self.publications = Publications(ExportFolder(root))

    def __str__(self) -> str:
        return str(self.root)

    @asynccontextmanager
    async def locked(self, _note: Callable[[str], None]) -> AsyncIterator[None]:
        """Create the folder and hold its lock; raise PublishLocked if another process does."""
        with report_target_errors(self):
            self.root.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            handle = open_own(self.root / _LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
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
        file: IO[bytes] = open(path, "wb", opener=open_own)  # noqa: SIM115 - the caller closes it
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
        return [path.name for path in self.root.iterdir() if path.is_dir()]

    def contents(self, folder: Path) -> dict[str, float]:
        """Return the files in a folder, and when each was written, in Unix seconds; nothing if it does not exist."""
        return {path.name: path.lstat().st_mtime for path in folder.iterdir()} if folder.is_dir() else {}

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
