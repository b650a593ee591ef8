"""A file that is not a database is closed at once, not when the garbage collector finds what failed."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from brokerage_feed.errors import CopyError
from brokerage_feed.sqlite_copy import SqliteCopy
from indexer.reso.mirror import Mirror
from mappings.data_dictionary import load_dictionary

Opened = Callable[[Path], object]

_OPENED: dict[str, Opened] = {
    "a copy": lambda path: SqliteCopy(path.parent, ("agents",), "{}"),
    "a mirror": lambda path: Mirror(path, load_dictionary()),
}


@pytest.mark.parametrize("opened", _OPENED.values(), ids=_OPENED)
def test_a_file_that_is_not_a_database_is_closed(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "copy.sqlite3"
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises((CopyError, sqlite3.DatabaseError), match="file is not a database") as failure:
        opened(path)
    files = [file.resolve() for file in Path("/proc/self/fd").iterdir() if file.exists()]
    # The error refers to the frames of what failed, and with them to its connection.
    assert failure.value.__traceback__ is not None
    assert path.resolve() not in files
