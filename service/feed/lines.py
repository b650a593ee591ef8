"""What the feed says of a record: its company, place, time and content hash, and the record or why it is gone."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.answer import Encoded
    from service.feed.hits import Head
    from service.projection import Variant

_UNSIGNED = 2**64
_EPOCH = dt.date(1970, 1, 1)
_MINUTES = [b"T%02d:%02d:" % divmod(minute, 60) for minute in range(24 * 60)]
_SECONDS = [b"%02d." % second for second in range(60)]
_MILLISECONDS = [b"%03dZ" % millisecond for millisecond in range(1000)]


class _Line(msgspec.Struct, gc=False, omit_defaults=True):
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
    return f"{content % _UNSIGNED:016x}"


def moment(clock: int) -> bytes:
    """Return milliseconds since 1970 as ISO 8601 in UTC; to format each by itself would take five times as long."""
    minutes, milliseconds = divmod(clock, 60_000)
    day, minute = divmod(minutes, 24 * 60)
    return _date(day) + _MINUTES[minute] + _SECONDS[milliseconds // 1000] + _MILLISECONDS[milliseconds % 1000]


@lru_cache(maxsize=4096)
def _date(day: int) -> bytes:
    """Return the date of a day since 1970."""
    return (_EPOCH + dt.timedelta(days=day)).isoformat().encode()


def gone(resource: str, identifier: str, head: Head, reason: str) -> bytes:
    """Return the encoded line of a record that is not kept any more."""
    return _encode(_Line(resource, head.company, identifier, head.sequence, moment(head.clock).decode(), reason=reason))


def present(heads: Sequence[Head], records: Sequence[Encoded], variant: Variant, resource: str | None) -> list[bytes]:
    """Return the encoded lines of records, each in the form of the variant."""
    return [
        b"".join((_about(head, resource), b',"record":', record, b"}"))
        for head, record in zip(heads, variant.encode(records), strict=True)
    ]


def _about(head: Head, resource: str | None) -> bytes:
    time = moment(head.clock).decode()
    return _encode(_Line(resource, head.company, head.id, head.sequence, time, content_hex(head.content)))[:-1]
