"""Files and folders that only their owner may read, whatever the umask, and the lock that allows one pull per folder.

Files that exist keep their mode. The operating system releases the lock when the process ends.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokerage_feed.errors import CopyError, CopyLocked

try:
    import fcntl
except ImportError as error:
    raise ImportError(
        "brokerage-feed needs Linux or macOS; on Windows, use the Windows Subsystem for Linux."
    ) from error

_FILE_MODE, _FOLDER_MODE = 0o600, 0o700


def make_folder(path: Path) -> None:
    """Create a folder and its parents unless they exist; raise OSError."""
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def open_private(path: str | Path, flags: int) -> int:
    """Open a file as `open(…, opener=open_private)` does: a new one is private."""
    return os.open(path, flags, _FILE_MODE)


def create_file(path: Path) -> None:
    """Create an empty file unless it exists, for a library that opens it by its path; raise OSError."""
    os.close(open_private(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))


_FILE = ".lock"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create the folder and hold its lock; raise CopyLocked if another process holds it."""
    try:
        make_folder(folder)
        file = open(folder / _FILE, "w", opener=open_private)  # noqa: SIM115 - `Path.open` has no opener
    except OSError as error:
        raise CopyError(f"{folder} cannot be used: {error.strerror}.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CopyLocked(f"Another pull is using {folder}.") from error
        yield
