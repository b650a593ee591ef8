"""From what an operator names to a source."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.column_source import ColumnSource
from indexer.directory import ENDINGS, Directory
from indexer.errors import SourceError
from indexer.stream import single_file, standard_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from indexer.source import Source
    from mappings import Resource

_ACCEPTED = (
    "a folder with files such as companies.ndjson, a file ending in .ndjson, .ndjson.gz or .ndjson.zst, "
    "the .toml file of a column map, or - for standard input"
)


@contextmanager
def open_source(name: str, *, resource: Resource | None = None) -> Iterator[Source]:
    """Open a folder, a file, a column map or, as `-`, standard input; raise SourceError for anything else.

    `resource` is that of lines in a file or standard input that name none. Temporary files are gone afterwards.
    """
    path = Path(name)
    if name == "-":
        with tempfile.TemporaryDirectory(prefix="brokerage-source-") as folder:
            yield standard_input(resource, Path(folder))
    elif path.is_dir():
        yield Directory(path)
    elif path.is_file() and path.name.endswith(ENDINGS):
        with tempfile.TemporaryDirectory(prefix="brokerage-source-") as folder:
            yield single_file(path, resource, Path(folder))
    elif path.is_file() and path.suffix == ".toml":
        yield ColumnSource(path)
    elif path.exists():
        raise SourceError(f"The source {name} is nothing that can be read: give {_ACCEPTED}.")
    else:
        raise SourceError(f"The source {name} does not exist: give {_ACCEPTED}.")
