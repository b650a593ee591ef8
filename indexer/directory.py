"""A folder with one NDJSON file per resource, plain, gzip or zstd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.errors import SourceError
from indexer.files import file_identity, modified_at, open_file
from indexer.source import one_after_another

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from indexer.source import Feed, Reading
    from mappings import Resource

ENDINGS = (".ndjson", ".ndjson.gz", ".ndjson.zst")


class Directory:
    """A folder of `<alias>.ndjson`, each possibly `.gz` or `.zst`."""

    def __init__(self, folder: Path) -> None:
        """Raise SourceError for what is not a folder."""
        if not folder.is_dir():
            raise SourceError(f"The source {folder} is not a folder: name the folder that holds companies.ndjson.")
        self._folder = folder

    def has(self, resource: Resource) -> bool:
        """Whether there is a file for the resource."""
        return bool(self._present(resource))

    def open(self, resource: Resource) -> AbstractContextManager[Reading]:
        """Open the resource's file."""
        return open_file(self._path(resource))

    def identity(self, resource: Resource) -> str:
        """Return what changes with the file."""
        return file_identity(self._path(resource))

    def taken_at(self, resource: Resource) -> int:
        """Return when the file was last written."""
        return modified_at(self._path(resource))

    def changes(self) -> AbstractContextManager[Feed]:
        """Open all files, one after another."""
        return one_after_another(self)

    def _path(self, resource: Resource) -> Path:
        present = self._present(resource)
        if not present:
            raise SourceError(f"The source {self._folder} has no {resource.alias}.ndjson.")
        return present[0]

    def _present(self, resource: Resource) -> list[Path]:
        names = [self._folder / f"{resource.alias}{ending}" for ending in ENDINGS]
        present = [path for path in names if path.is_file()]
        if len(present) > 1:
            raise SourceError(f"{present[0]} and {present[1].name} are both there: keep one of them.")
        return present
