"""The dead-letter file: every line that was refused, with where it stands, which field is at fault and why."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import IO, TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from indexer.source import Line


class DeadLetters:
    """The refused lines of one build; the file exists once there is one."""

    def __init__(self, folder: str, alias: str) -> None:
        """Name the file after the resource and the moment."""
        moment = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S%fZ")
        self._path = Path(folder) / f"{alias}-{moment}.ndjson"
        self._file: IO[bytes] | None = None
        self.numbers: set[int] = set()

    @property
    def path(self) -> str | None:
        """The file, or None while nothing was refused."""
        return str(self._path) if self.numbers else None

    def add(self, line: Line, field: str, reason: str) -> None:
        """Write one refused line; each counts once."""
        if line.number in self.numbers:
            return
        self.numbers.add(line.number)
        letter = {
            "file": line.file,
            "line": line.number,
            "field": field,
            "reason": reason,
            "payload": line.data.decode(errors="replace").rstrip("\r\n"),
        }
        self._opened().write(orjson.dumps(letter, option=orjson.OPT_APPEND_NEWLINE))

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb")
        return self._file

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()
