"""The lock that allows one pull per folder. The operating system releases it when the process ends."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from consumer.errors import CopyError, CopyLocked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FILE = ".lock"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create the folder and hold its lock; raise CopyLocked if another process holds it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _FILE).open("w")
    except OSError as error:
        raise CopyError(f"{folder} cannot be used: {error.strerror}.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CopyLocked(f"Another pull is using {folder}.") from error
        yield
