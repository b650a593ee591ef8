"""One pull at a time in a folder: a lock that the system takes back when its holder ends, however that comes."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from consumer.errors import CopyError, Locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FILE = ".lock"


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock; raises Locked where another process does."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _FILE).open("w")
    except OSError as error:
        raise CopyError(f"{folder} cannot be used: {error.strerror}.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Locked(f"Another pull works in {folder}.") from error
        yield
