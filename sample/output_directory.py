"""A source directory is written whole or not at all: under temporary names first, in place at the end."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sample.source_summary import README_FIRST_LINE, WriteProgress

README = "README.txt"
_DRAFT = ".writing"
_LINES_PER_REPORT = 1000  # lines
_BUFFER = 1 << 20  # bytes


class SampleError(Exception):
    """The source cannot be written; the message is one sentence for the person who asked."""


@contextmanager
def staged_directory(directory: Path) -> Iterator[Path]:
    """Give a folder to write into and, when all went well, move its files into `directory`.

    Raises SampleError where the directory holds files of others, or the disk refuses.
    """
    try:
        created = _prepare(directory)
        try:
            yield directory / _DRAFT
            _publish(directory)
        finally:
            shutil.rmtree(directory / _DRAFT, ignore_errors=True)
            if created:
                _remove_if_empty(directory)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise SampleError(
            f"The sample cannot be written to {directory} ({reason}); fix that or choose another directory."
        ) from problem


def write_lines(path: Path, lines: Iterable[bytes], on_progress: WriteProgress | None) -> int:
    """Write the lines to `path` and return how many they are; reports the count so far under the file's stem."""
    count = 0
    with path.open("wb", buffering=_BUFFER) as file:
        for count, line in enumerate(lines, 1):
            file.write(line)
            if on_progress and count % _LINES_PER_REPORT == 0:
                on_progress(path.stem, count)
    if on_progress:
        on_progress(path.stem, count)
    return count


def _prepare(directory: Path) -> bool:
    """Make directory and draft folder; return whether the directory is new."""
    created = not directory.exists()
    if not created:
        _require_own(directory)
    shutil.rmtree(directory / _DRAFT, ignore_errors=True)
    (directory / _DRAFT).mkdir(parents=True)
    return created


def _require_own(directory: Path) -> None:
    if not directory.is_dir():
        raise SampleError(f"{directory} is a file; name a directory that is empty or does not exist yet.")
    names = {entry.name for entry in directory.iterdir()} - {_DRAFT}
    if names and not _is_sample(directory):
        raise SampleError(
            f"{directory} holds files that are not generated sample data, such as {min(names)};"
            " name a directory that is empty or does not exist yet."
        )


def _is_sample(directory: Path) -> bool:
    readme = directory / README
    return readme.is_file() and readme.read_text(encoding="utf-8", errors="replace").startswith(README_FIRST_LINE)


def _publish(directory: Path) -> None:
    """Move the files; the README first, so that a directory that was cut off here is still known as ours."""
    for file in sorted((directory / _DRAFT).iterdir(), key=lambda file: file.name != README):
        file.replace(directory / file.name)


def _remove_if_empty(directory: Path) -> None:
    if not any(directory.iterdir()):
        directory.rmdir()
