"""Opening a source by its command line argument."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from indexer.errors import SourceError, WorkFolderError
from indexer.settings import IndexerSettings
from indexer.source.folder_source import NDJSON_SUFFIXES, FolderSource
from indexer.source.lines import Source
from indexer.source.stream_source import file_source, stdin_source
from indexer.source.tables.column_map import is_column_map
from indexer.source.tables.table_source import TableSource
from mappings import RESOURCES, Resource

_ACCEPTED = (
    "a folder with files such as companies.ndjson or with column maps (.toml), a file ending in .ndjson, .ndjson.gz or "
    ".ndjson.zst, the .toml file of a column map, or - for standard input"
)


@contextmanager
def open_source(
    name: str, *, resource: Resource | None = None, max_record_bytes: int = IndexerSettings.max_record_bytes
) -> Iterator[Source]:
    """Open a folder, a file, a column map or, as `-`, standard input; raise SourceError for anything else.

    `resource` is the default for lines of a file or of standard input that do not name one. A line of more than
    `max_record_bytes` is rejected. Temporary files are removed on exit.
    """
    path = Path(name)
    if name == "-":
        with _temporary_folder() as folder:
            yield stdin_source(resource, folder, max_record_bytes)
    elif path.is_dir():
        yield _folder_source(path, max_record_bytes)
    elif path.is_file() and path.name.endswith(NDJSON_SUFFIXES):
        with _temporary_folder() as folder:
            yield file_source(path, resource, folder, max_record_bytes)
    elif path.is_file() and path.suffix == ".toml":
        yield TableSource([path], max_record_bytes)
    elif path.exists():
        raise SourceError(f"The source {name} is not supported: use {_ACCEPTED}.")
    else:
        raise SourceError(f"The source {name} does not exist: use {_ACCEPTED}.")


def _folder_source(folder: Path, max_bytes: int) -> Source:
    """Return the source of a folder: its column maps, or its files of envelopes."""
    envelopes, maps = FolderSource(folder, max_bytes), sorted(filter(is_column_map, folder.glob("*.toml")))
    if not maps:
        return envelopes
    if both := [resource.alias for resource in RESOURCES if envelopes.has(resource)]:
        raise SourceError(f"{folder} has column maps and {both[0]}.ndjson: keep them in folders of their own.")
    return TableSource(maps, max_bytes)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Create a folder that is removed on exit; raise WorkFolderError if that fails."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerage-source-"))
        except OSError as error:
            raise WorkFolderError(
                f"No temporary file can be created: {error.strerror}. Set TMPDIR to a folder with free space."
            ) from error
        yield Path(folder)
