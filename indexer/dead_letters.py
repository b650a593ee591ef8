"""The dead-letter file: every line that was refused, with where it stands, which field is at fault and why."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import IO, TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from indexer.report import ResourceReport
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
    def file(self) -> str:
        """Where the file is, or will be once something is refused."""
        return str(self._path)

    @property
    def path(self) -> str | None:
        """The file, or None while nothing was refused."""
        return str(self._path) if self.numbers else None

    def count_in(self, report: ResourceReport) -> None:
        """Bring the count of bad envelopes in a report up to date."""
        report.dead, report.dead_letters = len(self.numbers), self.path

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

    def resume(self, file: str, numbers: list[int]) -> None:
        """Go on with the file of an interrupted run, of which only the given lines are acknowledged."""
        self._path, self.numbers = Path(file), set(numbers)
        if not self._path.is_file():
            return
        known = [line for line in self._path.read_bytes().splitlines(keepends=True) if _number(line) in self.numbers]
        if known:
            part = self._path.with_suffix(".part")
            part.write_bytes(b"".join(known))
            part.replace(self._path)
        else:
            self._path.unlink()

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
        return self._file

    def flush(self) -> None:
        """Hand everything written to the system, before a checkpoint counts on it."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()


def _number(letter: bytes) -> int | None:
    """Return the line that a letter is about; None for one that was cut off in the middle."""
    try:
        return int(orjson.loads(letter)["line"])
    except orjson.JSONDecodeError:
        return None
