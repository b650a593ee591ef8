"""The lock that allows one pull per folder. The operating system releases it when the process ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokerage_feed.errors import CopyError, CopyLocked
from brokerage_feed.private_files import make_folder, open_private

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
