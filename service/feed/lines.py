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
_DAY_MILLISECONDS = 86_400_000
_EPOCH = dt.date(1970, 1, 1)


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


def moment(clock: int) -> str:
    """Return milliseconds since 1970 as ISO 8601 in UTC."""
    day, rest = divmod(clock, _DAY_MILLISECONDS)
    seconds, milliseconds = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    return f"{_date(day)}T{minutes // 60:02}:{minutes % 60:02}:{second:02}.{milliseconds:03}Z"


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    """Return the date of a day since 1970; to format every moment by itself takes three times as long."""
    return (_EPOCH + dt.timedelta(days=day)).isoformat()


def gone(resource: str, identifier: str, head: Head, reason: str) -> bytes:
    """Return the encoded line of a record that is not kept any more."""
    return _encode(_Line(resource, head.company, identifier, head.sequence, moment(head.clock), reason=reason))


def present(heads: Sequence[Head], records: Sequence[Encoded], variant: Variant, resource: str | None) -> list[bytes]:
    """Return the encoded lines of records, each in the form of the variant."""
    return [
        b"".join((_about(head, resource), b',"record":', record, b"}"))
        for head, record in zip(heads, variant.encode(records), strict=True)
    ]


def _about(head: Head, resource: str | None) -> bytes:
    line = _Line(resource, head.company, head.id, head.sequence, moment(head.clock), content_hex(head.content))
    return _encode(line)[:-1]
