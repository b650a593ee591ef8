"""The dead-letter file: every rejected line with its file and line number, the field at fault and the reason."""

import datetime as dt
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec
import orjson

from cluster.private_files import create_file, make_folder, open_private
from indexer.errors import report_folder_errors
from indexer.reporting.report import FaultTally, ResourceReport
from indexer.source.lines import RejectedLine

# The most of a line that is written; a longer one is cut.
_MAX_PAYLOAD_BYTES = 1_000_000
_MAX_CAUSES = 3  # in a report
_ADVICE = "Set BROKERAGE_DEAD_LETTER_DIR to a folder with free space that this user may write to."


class SavedLetters(msgspec.Struct):
    """What a checkpoint stores of the rejected lines."""

    path: str  # of their file, which may not exist yet
    lines: list[int] = []  # the numbers of the lines in the file
    records: list[str] = []  # identifiers of the records in those lines
    unidentified: list[int] = []  # those of the lines that name no record
    stray: int = 0  # lines of the source that name no resource and are reported with another


class DeadLetters:
    """The rejected lines of one run; the file is created with the first one.

    `records` are the records that they are about, `unidentified` the lines of which that is unknown. `stray` is the
    number of lines of the source that name no resource and are reported with another.
    """

    def __init__(self, folder: str, alias: str) -> None:
        """Name the file after the resource and the current time."""
        timestamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S%fZ")
        self._path = Path(folder) / f"{alias}-{timestamp}.ndjson"
        self._file: IO[bytes] | None = None
        self.line_numbers: set[int] = set()
        self.records: set[str] = set()
        self.unidentified: set[int] = set()
        self.stray = 0
        self._tally = FaultTally()

    @property
    def existing_path(self) -> str | None:
        """The path of the file, None if no line was rejected."""
        return str(self._path) if self.line_numbers else None

    def update_report(self, report: ResourceReport) -> None:
        """Set the dead-letter count and file of a report, and the most frequent causes."""
        report.dead, report.dead_letters = len(self.line_numbers), self.existing_path
        report.causes = self._tally.kinds(_MAX_CAUSES)

    def add(self, item: RejectedLine) -> None:
        """Write a rejected line, once per line number."""
        if item.position in self.line_numbers:
            return
        self.line_numbers.add(item.position)
        self._tally.add_line(item)
        self.records |= item.identifiers or frozenset()
        if item.identifiers is None:
            self.unidentified.add(item.position)
        entry = {
            "file": item.line.file,
            "line": item.number,
            **({"position": item.position} if item.line.before else {}),
            "records": None if item.identifiers is None else sorted(item.identifiers),
            "field": item.error.field,
            "reason": item.error.reason,
            "payload": item.data[:_MAX_PAYLOAD_BYTES].decode(errors="replace").rstrip("\r\n"),
        }
        with report_folder_errors(self._path.parent, _ADVICE):
            self._open_file().write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))

    def save(self) -> SavedLetters:
        """Flush the entries to the operating system, and return what a checkpoint stores, which relies on them."""
        self.flush()
        lines, unidentified = sorted(self.line_numbers), sorted(self.unidentified)
        return SavedLetters(str(self._path), lines, sorted(self.records), unidentified, self.stray)

    def resume(self, saved: SavedLetters) -> None:
        """Continue the file of an interrupted run; keep only the entries of the checkpointed line numbers."""
        self._path, self.line_numbers = Path(saved.path), set(saved.lines)
        self.records, self.unidentified, self.stray = set(saved.records), set(saved.unidentified), saved.stray
        if not self._path.is_file():
            return
        entries = self._path.read_bytes().splitlines(keepends=True)
        if kept := [entry for entry in entries if _line_number(entry) in self.line_numbers]:
            self._count(kept)
            part = self._path.with_suffix(".part")
            create_file(part)
            part.write_bytes(b"".join(kept))
            part.replace(self._path)
        else:
            self._path.unlink()

    def _count(self, entries: list[bytes]) -> None:
        for entry in map(orjson.loads, entries):
            self._tally.add(entry["file"], entry["line"], entry["field"], entry["reason"])

    def _open_file(self) -> IO[bytes]:
        if self._file is None:
            make_folder(self._path.parent)
            self._file = open(self._path, "ab", opener=open_private)  # noqa: SIM115 - closed by `close`
        return self._file

    def flush(self) -> None:
        """Flush the entries to the operating system."""
        if self._file is not None:
            with report_folder_errors(self._path.parent, _ADVICE):
                self._file.flush()

    def close(self) -> None:
        """Close the file if it is open."""
        if self._file is not None:
            with report_folder_errors(self._path.parent, _ADVICE):
                self._file.close()


def _line_number(entry: bytes) -> int | None:
    """Return the position of an entry's line, None if it is truncated."""
    try:
        content = orjson.loads(entry)
        return int(content.get("position", content["line"]))
    except orjson.JSONDecodeError:
        return None


def check_folder(folder: str) -> None:
    """Raise WorkFolderError if no file can be written to the folder, which is left as it was.

    A folder that does not exist yet is created with the first dead letter.
    """
    with report_folder_errors(folder, _ADVICE):
        path = Path(folder).absolute()
        present = next(parent for parent in (path, *path.parents) if parent.exists())
        with TemporaryFile(dir=present) as file:
            file.write(b"\n")
