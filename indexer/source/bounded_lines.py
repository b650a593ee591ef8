"""Lines of a byte stream, read within a bound: the rest of a longer line is skipped and never held in memory."""

import io
from collections.abc import Iterator

from indexer.errors import InvalidRecordError, SourceError
from indexer.source.lines import RejectedLine, SourceLine
from mappings import Resource

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LINE_END_BYTES = 2
_SKIPPED_BYTES = 1 << 16


def bounded_lines(plain: io.BufferedReader, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a stream; one that is longer than `max_bytes` and its line end is cut."""
    size = max_bytes + _LINE_END_BYTES
    while line := plain.readline(size):
        yield line
        if len(line) == size and not line.endswith(b"\n"):
            _skip_line(plain)


def _skip_line(plain: io.BufferedReader) -> None:
    while (part := plain.readline(_SKIPPED_BYTES)) and not part.endswith(b"\n"):
        pass


def without_mark(file: str, number: int, data: bytes) -> bytes:
    """Return a line without its byte order mark, which a file that was appended to another has too.

    Raises SourceError for a file in UTF-16.
    """
    if number == 1 and data.startswith(_UTF16_MARKS):
        raise SourceError(f"{file} is UTF-16: convert it to UTF-8.")
    return data.removeprefix(_UTF8_MARK)


def checked_size(line: SourceLine, max_bytes: int, resource: Resource | None = None) -> SourceLine | RejectedLine:
    """Return the line, rejected if it is too long; `resource` is its resource if that is known."""
    if len(line.data) <= max_bytes or len(line.data.removesuffix(b"\n").removesuffix(b"\r")) <= max_bytes:
        return line
    return RejectedLine(line, oversized(max_bytes), resource)


def oversized(max_bytes: int) -> InvalidRecordError:
    """Return the error of a line that is too long."""
    return InvalidRecordError(
        "", f"has more than {max_bytes:,} bytes: shorten the record, or raise BROKERAGE_MAX_RECORD_BYTES"
    )
