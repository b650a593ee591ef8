"""The JSON lines of the feed: company, time and content hash, with the record or a removal reason.

`sequence` is the time in milliseconds since 1970. The indexer's own sequence numbers would show how much of other
companies has changed.
"""

import datetime as dt
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from service.feed.hit_parser import DocumentHeader
from service.http.payload import JsonBytes
from service.records.projection import Variant

_HASH_MODULUS = 2**64
_EPOCH = dt.date(1970, 1, 1)
_MINUTES = [b"T%02d:%02d:" % divmod(minute, 60) for minute in range(24 * 60)]
_SECONDS = [b"%02d." % second for second in range(60)]
_MILLISECONDS = [b"%03dZ" % millisecond for millisecond in range(1000)]


class _ChangeLine(msgspec.Struct, gc=False, omit_defaults=True):
    resource: str | None = None
    company: str = ""
    id: str = ""
    sequence: int = -1
    time: str = ""
    content: str = ""
    reason: str = ""


_encode = msgspec.json.Encoder().encode


def content_hex(content: int) -> str:
    """Return a content hash as 16 hexadecimal digits."""
    return f"{content % _HASH_MODULUS:016x}"


def iso_timestamp(clock: int) -> bytes:
    """Return milliseconds since 1970 as ISO 8601 in UTC; five times as fast as `datetime` formatting."""
    minutes, milliseconds = divmod(clock, 60_000)
    day, minute = divmod(minutes, 24 * 60)
    return _date(day) + _MINUTES[minute] + _SECONDS[milliseconds // 1000] + _MILLISECONDS[milliseconds % 1000]


@lru_cache(maxsize=4096)
def _date(day: int) -> bytes:
    """Return the date of a day since 1970."""
    return (_EPOCH + dt.timedelta(days=day)).isoformat().encode()


def encode_removal(resource: str, identifier: str, header: DocumentHeader, reason: str) -> bytes:
    """Return the encoded line of a record that leaves the copy."""
    return _encode(
        _ChangeLine(
            resource, header.company, identifier, header.clock, iso_timestamp(header.clock).decode(), reason=reason
        )
    )


def encode_records(
    headers: Sequence[DocumentHeader], records: Sequence[JsonBytes], variant: Variant, resource: str | None
) -> list[bytes]:
    """Return the encoded lines of records in the form of the variant."""
    return [
        b"".join((_line_prefix(header, resource), b',"record":', record, b"}"))
        for header, record in zip(headers, variant.encode(records), strict=True)
    ]


def _line_prefix(header: DocumentHeader, resource: str | None) -> bytes:
    time = iso_timestamp(header.clock).decode()
    return _encode(_ChangeLine(resource, header.company, header.id, header.clock, time, content_hex(header.content)))[
        :-1
    ]
