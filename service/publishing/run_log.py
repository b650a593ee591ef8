"""What a run has published so far, so that the next one resumes it after a kill."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NAME = ".publishing"
# Seconds after which a run that was killed is not resumed: its publications would be too old.
RESUME_SECONDS = 6 * 3600


class RunLog:
    """The company and resource of each publication of a run: lines of a file that is deleted at its end.

    A run of some companies keeps none: it publishes them, whatever was published before.
    """

    def __init__(self, root: Path, *, is_kept: bool = True) -> None:
        """Read what a run has left that was killed not long ago."""
        self._path, self._is_kept = root / _NAME, is_kept
        self.done = self._read() if is_kept else set[str]()

    def _read(self) -> set[str]:
        if not self._path.exists() or time.time() - self._path.stat().st_mtime > RESUME_SECONDS:
            self._path.unlink(missing_ok=True)
            return set()
        # A kill can cut the last line.
        return {*self._path.read_text(encoding="utf-8").split("\n")[:-1]}

    def add(self, company: str, resource: str) -> None:
        """Note a publication."""
        self.done.add(_line(company, resource))
        if self._is_kept:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{_line(company, resource)}\n")

    def has(self, company: str, resource: str) -> bool:
        """Whether the run has published a company's resource."""
        return _line(company, resource) in self.done

    def finish(self) -> None:
        """Forget the run."""
        if self._is_kept:
            self._path.unlink(missing_ok=True)


def _line(company: str, resource: str) -> str:
    return f"{company}/{resource}"
