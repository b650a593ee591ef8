"""Encoding of envelopes: line numbers, timestamps and content digests."""

import datetime as dt
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from indexer.clock import now_microseconds
from indexer.reso.source_time import parse_source_time
from indexer.source.lines import RejectedLine, SourceLine
from mappings.data_dictionary.model import MODIFICATION_TIMESTAMP

encode = msgspec.json.Encoder(order="deterministic").encode
_DIGEST_BYTES = 16


def number_lines(lines: Iterable[SourceLine | RejectedLine]) -> Iterator[SourceLine | RejectedLine]:
    """Number lines from 1, the same in every pass: an interrupted build resumes after a number."""
    for number, line in enumerate(lines, 1):
        if isinstance(line, RejectedLine):
            yield line._replace(line=line.line._replace(number=number))
        else:
            yield line._replace(number=number)


def content_digest(content: object) -> bytes:
    """Return a digest of a JSON value."""
    return hashlib.sha256(encode(content)).digest()[:_DIGEST_BYTES]


def modified_microseconds(record: dict[str, Any]) -> int:
    """Return a record's modification time in microseconds since 1970; the current time if it is missing or later."""
    written = record.get(MODIFICATION_TIMESTAMP)
    now, modified = now_microseconds(), parse_source_time(written) if isinstance(written, str) else None
    return now if modified is None else max(0, min(int(modified.timestamp() * 1_000_000), now))


def format_microseconds(microseconds: int) -> str:
    """Return the timestamp format of envelopes."""
    time_utc = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=microseconds)
    return time_utc.isoformat(timespec="microseconds").replace("+00:00", "Z")
