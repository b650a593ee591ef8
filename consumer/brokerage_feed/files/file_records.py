"""The records in a published file: lines of a snapshot, in frames of zstd."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from brokerage_feed.errors import NoProgress
from brokerage_feed.files.zstd import zstd
from brokerage_feed.messages import SnapshotRecord
from brokerage_feed.response_bodies import MAX_LINE_BYTES, MalformedResponse, decode_message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT = "ndjson.zst"
_RECORD = msgspec.json.Decoder(SnapshotRecord)


def read_records(path: Path, after: str | None = None) -> Iterator[SnapshotRecord]:
    """Yield the records of a file after a cursor; raise NoProgress if it holds something else."""
    is_after = after is None
    for line in _lines(path):
        try:
            record = decode_message(line, _RECORD, path.name)
        except MalformedResponse as error:
            raise NoProgress(str(error)) from None
        is_after = is_after or is_beyond(record.cursor, after)
        if is_after:
            yield record


def is_beyond(cursor: str, after: str | None) -> bool:
    """Whether a cursor comes after another one in the order of a snapshot, which is that of UTF-8."""
    return after is None or cursor.encode() > after.encode()


def read_batch(records: Iterator[SnapshotRecord], count: int) -> list[SnapshotRecord]:
    """Return the next records, at most `count`; none at the end."""
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
