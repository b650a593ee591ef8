"""A private folder on this host for files that are not uploaded yet. What killed runs have left is deleted."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from service.publishing.errors import PublishError, report_target_errors

_PREFIX = f"brokerage-publish-{os.getuid()}-"
_ATTEMPTS = 10


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create the folder, below that of temporary files, and delete it at the end; raise PublishError.

    Its owner holds a lock of it, which ends with the process.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _delete_abandoned(left)
    with report_target_errors(tempfile.gettempdir()):
        path, handle = _create()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def _create() -> tuple[Path, int]:
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Another run may take it for abandoned in between.
        with suppress(OSError):
            handle = _locked(path)
            if path.is_dir():
                return path, handle
            os.close(handle)
    raise PublishError(f"No folder could be created in {tempfile.gettempdir()}.")


def _delete_abandoned(path: Path) -> None:
    # It may be in use, a link, or another user's.
    with suppress(OSError):
        handle = _locked(path)
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock of a folder; raise OSError if another one does."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle
