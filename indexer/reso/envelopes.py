"""What envelopes are told by: the number of each line, as of when a record is, and what tells two contents apart."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from typing import TYPE_CHECKING, Any

import msgspec

from indexer.reso.odata import moment
from indexer.source import Fault
from mappings.dictionary import MODIFIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from indexer.source import Line

encode = msgspec.json.Encoder(order="deterministic").encode
_DIGEST_BYTES = 16


def numbered(lines: Iterable[Line | Fault]) -> Iterator[Line | Fault]:
    """Number lines from 1, in every pass alike: a build that was killed goes on behind a number."""
    for number, each in enumerate(lines, 1):
        if isinstance(each, Fault):
            yield each._replace(line=each.line._replace(number=number))
        else:
            yield each._replace(number=number)


def digest(content: object) -> bytes:
    """Return what changes with a content."""
    return hashlib.sha256(encode(content)).digest()[:_DIGEST_BYTES]


def as_of(record: dict[str, Any]) -> int:
    """Return a record's time of change in microseconds since 1970, at most the present, and that where it has none."""
    now, told = time.time_ns() // 1000, moment(str(record.get(MODIFIED, "")))
    return now if told is None else max(0, min(int(told.timestamp() * 1_000_000), now))


def written(microseconds: int) -> str:
    """Return a time as envelopes hold it."""
    told = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=microseconds)
    return told.isoformat(timespec="microseconds").replace("+00:00", "Z")
