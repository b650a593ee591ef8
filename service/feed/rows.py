"""The records of a page of a snapshot, copied once: what is said of each is cut out of the answer, not decoded.

A snapshot is limited by what a record costs: decoding and encoding what stands before it took four times as long.
"""

from __future__ import annotations

import re
import struct
from binascii import hexlify
from typing import TYPE_CHECKING, NamedTuple

from mappings.document import MARK, feed_key
from service.feed import hits, lines
from service.feed.hits import SOURCE_KEY

if TYPE_CHECKING:
    from service.answer import Encoded
    from service.projection import Variant

# Texts with an escape, and anything in another order, are left to the decoder.
_ROW = re.compile(
    rb'"_source":\{"id":"([^"\\]*)","feed_key":"[^"\\]*","company":"([^"\\]*)","version":-?\d+,"content":(-?\d+),'
    rb'[^\t]*,"clock":(\d+),"sequence":(\d+),"record":\t'
)
_pack = struct.Struct(">q").pack
_ABOUT = b'{"company":"%b","id":"%b","sequence":%b,"time":"%b","content":"%b","record":'


class Page(NamedTuple):
    """The lines of a page: how many, up to which feed key, and their bytes."""

    rows: int
    last: str
    encoded: bytes


def read(answer: bytes | bytearray, variant: Variant) -> Page:
    """Return the lines of the records of an answer."""
    matches, records, is_whole = _cut(answer)
    if not is_whole:
        return _decoded(answer, variant)
    parts: list[Encoded] = []
    for match, record in zip(matches, variant.encode(records), strict=True):
        identifier, company, content, clock, sequence = match.groups()
        about = (company, identifier, sequence, lines.moment(int(clock)), hexlify(_pack(int(content))))
        parts += (_ABOUT % about, record, b"}\n")
    last = feed_key(matches[-1][2].decode(), matches[-1][1].decode()) if matches else ""
    return Page(len(matches), last, b"".join(parts))


def _cut(answer: bytes | bytearray) -> tuple[list[re.Match[bytes]], list[Encoded], bool]:
    """Return what stands before each record, the records, and whether all were written as expected."""
    matches, records, view = list[re.Match[bytes]](), list["Encoded"](), memoryview(answer)
    find = answer.find
    start = find(SOURCE_KEY)
    while start >= 0 and (match := _ROW.match(answer, start)) is not None:
        end = find(MARK, match.end())
        matches.append(match)
        records.append(view[match.end() : end])
        start = find(SOURCE_KEY, end)
    return matches, records, start < 0


def _decoded(answer: bytes | bytearray, variant: Variant) -> Page:
    """Return the same of an answer that is not written as expected."""
    found = hits.read(answer)
    heads = [hit.head for hit in found]
    encoded = lines.present(heads, [hit.record for hit in found if hit.record is not None], variant, None)
    return Page(len(found), heads[-1].feed_key if heads else "", b"\n".join([*encoded, b""]))
