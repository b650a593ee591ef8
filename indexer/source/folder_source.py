"""A folder with one NDJSON file per resource, plain, gzip or zstd."""

from contextlib import AbstractContextManager
from pathlib import Path

from indexer.errors import SourceError
from indexer.settings import IndexerSettings
from indexer.source.files import file_identity, modified_microseconds, open_line_file
from indexer.source.lines import ChangeStream, LineStream, chained_resources
from mappings import Resource

NDJSON_SUFFIXES = (".ndjson", ".ndjson.gz", ".ndjson.zst")


class FolderSource:
    """A folder of `<alias>.ndjson`, each possibly `.gz` or `.zst`."""

    def __init__(self, folder: Path, max_bytes: int = IndexerSettings.max_record_bytes) -> None:
        """`max_bytes` is the limit of a line. Raise SourceError if the path is not a folder."""
        if not folder.is_dir():
            raise SourceError(f"The source {folder} is not a folder: name the folder that holds companies.ndjson.")
        self._folder = folder
        self._max_bytes = max_bytes

    def has(self, resource: Resource) -> bool:
        """Whether the folder has a file for the resource."""
        return bool(self._present(resource))

    def open(self, resource: Resource) -> AbstractContextManager[LineStream]:
        """Open the resource's file."""
        return open_line_file(self.line_file(resource), self._max_bytes, resource)

    def identity(self, resource: Resource) -> str:
        """Return a fingerprint of the resource's file."""
        return file_identity(self.line_file(resource))

    def taken_at(self, resource: Resource) -> int:
        """Return when the resource's file was last modified, in microseconds since 1970."""
        return modified_microseconds(self.line_file(resource))

    def changes(self) -> AbstractContextManager[ChangeStream]:
        """Open all files as one stream."""
        return chained_resources(self)

    def line_file(self, resource: Resource) -> Path:
        """Return the resource's file; raise SourceError if it does not exist."""
        present = self._present(resource)
        if not present:
            raise SourceError(f"The source {self._folder} has no {resource.alias}.ndjson.")
        return present[0]

    def _present(self, resource: Resource) -> list[Path]:
        names = [self._folder / f"{resource.alias}{suffix}" for suffix in NDJSON_SUFFIXES]
        present = [path for path in names if path.is_file()]
        if len(present) > 1:
            raise SourceError(f"{present[0]} and {present[1].name} both exist: keep one of them.")
        return present
