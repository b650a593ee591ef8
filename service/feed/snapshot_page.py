"""A page of a snapshot: record headers are cut out of the response by a regular expression, not decoded.

The cost per record limits a snapshot: decoding and encoding the headers took four times as long.
"""

import re
import struct
from binascii import hexlify
from functools import cache
from typing import NamedTuple

from mappings.shown_content import ShownContent
from mappings.stored_document import RECORD_DELIMITER, feed_key
from service.feed import hit_parser, json_lines
from service.feed.hit_parser import SOURCE_KEY
from service.http.payload import JsonBytes
from service.records.projection import Variant

# Strings with an escape, and keys in another order, are left to the decoder.
_RECORD_PREFIX = (
    rb'"_source":\{"id":"([^"\\]*)","feed_key":"[^"\\]*","company":"([^"\\]*)",%b"%b":(-?\d+),'
    rb'[^\t]*,"clock":(\d+),"sequence":\d+,"record":\t'
)
_pack_int64 = struct.Struct(">q").pack
_LINE_PREFIX = b'{"company":"%b","id":"%b","sequence":%b,"time":"%b","content":"%b","record":'


class SnapshotPage(NamedTuple):
    """The encoded lines of a page, how each begins, up to its identifier at least, and the last feed key."""

    beginnings: list[JsonBytes]
    last_feed_key: str
    encoded: bytes


def encode_page(response: bytes | bytearray, variant: Variant, content: ShownContent) -> SnapshotPage:
    """Return the lines for the records of a response."""
    matches, records, is_complete = _match_records(response, _record_prefix(content))
    if not is_complete:
        return _decode_page(response, variant, content)
    parts: list[JsonBytes] = []
    for match, record in zip(matches, variant.encode(records), strict=True):
        identifier, company, content_hash, clock = match.groups()
        if content.address and (hidden := _content_without_address(content).search(match[0])) is not None:
            content_hash = hidden[1]
        values = (
            company,
            identifier,
            clock,
            json_lines.iso_timestamp(int(clock)),
            hexlify(_pack_int64(int(content_hash))),
        )
        parts += (_LINE_PREFIX % values, record, b"}\n")
    last = feed_key(matches[-1][2].decode(), matches[-1][1].decode()) if matches else ""
    return SnapshotPage(parts[::3], last, b"".join(parts))


@cache
def _record_prefix(content: ShownContent) -> re.Pattern[bytes]:
    # The hash of the whole content is one of the first search fields, the others are the last: search from there.
    before = rb"[^\t]*" if content.hidden else rb"[^\t]*?"
    return re.compile(_RECORD_PREFIX % (before, content.content.encode()))


@cache
def _content_without_address(content: ShownContent) -> re.Pattern[bytes]:
    return re.compile(rb',"%b":(-?\d+)' % content.without_address.content.encode())


def _match_records(
    response: bytes | bytearray, prefix: re.Pattern[bytes]
) -> tuple[list[re.Match[bytes]], list[JsonBytes], bool]:
    """Return the header and bytes of each record, and whether every header matched."""
    matches, records, view = list[re.Match[bytes]](), list[JsonBytes](), memoryview(response)
    find = response.find
    start = find(SOURCE_KEY)
    while start >= 0 and (match := prefix.match(response, start)) is not None:
        end = find(RECORD_DELIMITER, match.end())
        matches.append(match)
        records.append(view[match.end() : end])
        start = find(SOURCE_KEY, end)
    return matches, records, start < 0


def _decode_page(response: bytes | bytearray, variant: Variant, content: ShownContent) -> SnapshotPage:
    """Return the lines by full decoding, for a response with an unexpected layout."""
    hits = hit_parser.decode_hits(response, content)
    headers = [hit.header for hit in hits]
    encoded = json_lines.encode_records(headers, [hit.record for hit in hits if hit.record is not None], variant, None)
    last = headers[-1].feed_key if headers else ""
    return SnapshotPage([*encoded], last, b"\n".join([*encoded, b""]))
