"""What a publication is written to: a folder, or an object store that whole files are copied to."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import IO, Protocol

from service.exports.object_store import is_store_url
from service.exports.publications import Publications
from service.publishing.run_log import RunLog
from service.publishing.target_folder import TargetFolder
from service.publishing.target_store import TargetStore
from service.publishing.typed_tables import OpenTables


class PublishTarget(Protocol):
    """Where one process at a time publishes to. Paths are below `root`; what `publications` reads is what is visible.

    Methods raise OSError or PublishError.
    """

    root: Path
    publications: Publications
    open_tables: OpenTables | None

    def locked(self, note: Callable[[str], None], /) -> AbstractAsyncContextManager[None]:
        """Hold the lock; raise PublishLocked if another process does. `note` takes what the operator waits for."""

    def folder(self, *names: str) -> Path:
        """Return a folder below, in which files can be created."""

    def create(self, path: Path, /) -> IO[bytes]:
        """Open a new file for writing."""

    def complete(self, paths: Iterable[Path], /) -> None:
        """Take files whose last bytes are written."""

    def replace(self, path: Path, content: bytes, /) -> None:
        """Write a small file so that its readers see either the earlier or the new content, whole."""

    def companies(self) -> Sequence[str]:
        """Return the names of all folders below the root."""

    def names(self, folder: Path, /) -> Sequence[str]:
        """Return the names of the files in a folder, complete or not; an empty list if the folder does not exist."""

    def delete(self, path: Path, /) -> None:
        """Delete a file, if it exists."""

    def remove_empty(self, folder: Path, /) -> None:
        """Delete a folder if it is empty."""

    def run_log(self) -> RunLog:
        """Return what a run that was killed has published."""


def open_target(place: str, open_tables: OpenTables | None = None) -> PublishTarget:
    """Return the target that a path or a URL names; raise ValueError for a URL that cannot be used.

    With `open_tables` there are typed tables, too.
    """
    return TargetStore(place, open_tables) if is_store_url(place) else TargetFolder(Path(place), open_tables)
