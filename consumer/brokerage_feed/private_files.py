"""Files and folders that only their owner may read, whatever the umask. Those that exist keep their mode."""

import os
from pathlib import Path

_FILE_MODE, _FOLDER_MODE = 0o600, 0o700


def make_folder(path: Path) -> None:
    """Create a folder and its parents unless they exist; raise OSError."""
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def open_private(path: str | Path, flags: int) -> int:
    """Open a file as `open(…, opener=open_private)` does: a new one is private."""
    return os.open(path, flags, _FILE_MODE)


def create_file(path: Path) -> None:
    """Create an empty file unless it exists, for a library that opens it by its path; raise OSError."""
    os.close(open_private(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
