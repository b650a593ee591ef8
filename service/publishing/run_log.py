"""What a run has published so far, so that the next one resumes it after a kill."""

import time
from pathlib import Path
from typing import Protocol

LOG_NAME = ".publishing"
# Seconds after which a run that was killed is not resumed: its publications would be too old.
RESUME_SECONDS = 6 * 3600


class RunLog(Protocol):
    """The publications of a run, each as `company/resource`. It is kept until the run ends."""

    done: set[str]

    def add(self, publication: str, /) -> None:
        """Note a publication."""

    def finish(self) -> None:
        """Forget the run."""


class UnkeptRunLog:
    """The log of a run of some companies, which publishes them whatever was published before."""

    def __init__(self) -> None:
        """Begin without any."""
        self.done = set[str]()

    def add(self, publication: str) -> None:
        """Keep nothing."""

    def finish(self) -> None:
        """Forget nothing."""


class FolderRunLog:
    """Lines of a file that is deleted at the end of the run."""

    def __init__(self, root: Path) -> None:
        """Read what a run has left that was killed not long ago."""
        self._path = root / LOG_NAME
        self.done = self._read()

    def _read(self) -> set[str]:
        if not self._path.exists() or time.time() - self._path.stat().st_mtime > RESUME_SECONDS:
            self._path.unlink(missing_ok=True)
            return set()
        # A kill can cut the last line.
        return {*self._path.read_text(encoding="utf-8").split("\n")[:-1]}

    def add(self, publication: str) -> None:
        """Append a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{publication}\n")

    def finish(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)
