"""The records or changes in a published file: lines of a snapshot or of changes, in frames of zstd."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from brokerage_feed.errors import NoProgress
from brokerage_feed.files.zstd import zstd
from brokerage_feed.messages import Change, SnapshotRecord
from brokerage_feed.response_bodies import MAX_LINE_BYTES, MalformedResponse, decode_message

FORMAT = "ndjson.zst"
_RECORD, _CHANGE = msgspec.json.Decoder(SnapshotRecord), msgspec.json.Decoder(Change)
Item = TypeVar("Item")


def read_records(path: Path, after: str | None = None) -> Iterator[SnapshotRecord]:
    """Yield the records of a file after a cursor; raise NoProgress if it holds something else."""
    is_after = after is None
    for record in _decoded(path, _RECORD):
        is_after = is_after or is_beyond(record.cursor, after)
        if is_after:
            yield record


def read_changes(path: Path) -> Iterator[Change]:
    """Yield the changes of a file in order; raise NoProgress if it holds something else."""
    return _decoded(path, _CHANGE)


def _decoded(path: Path, decoder: msgspec.json.Decoder[Item]) -> Iterator[Item]:
    for line in _lines(path):
        try:
            yield decode_message(line, decoder, path.name)
        except MalformedResponse as error:
            raise NoProgress(str(error)) from None


def is_beyond(cursor: str, after: str | None) -> bool:
    """Whether a cursor comes after another one in the order of a snapshot, which is that of UTF-8."""
    return after is None or cursor.encode() > after.encode()


def read_batch(records: Iterator[Item], count: int) -> list[Item]:
    """Return the next records or changes, at most `count`; none at the end."""
    return list(islice(records, count))


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with zstd.open(path, "rb") as file:
            while line := file.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES:
                    raise NoProgress(f"{path.name} has a line of more than {MAX_LINE_BYTES:,} bytes.")
                yield line
    except (zstd.ZstdError, EOFError) as error:
        raise NoProgress(f"{path.name} is not a zstd file: {error}.") from None
