"""The identifiers of what a response sends, read from what Elasticsearch returned or from what was encoded.

They are read in the background, once the response is on its way: requests hand over references.
"""

import re
from collections.abc import Iterable, Sequence

import orjson

from mappings.stored_document import RECORD_DELIMITER
from service.audit.audit_rows import LIVE
from service.http.payload import JsonBytes
from service.search.search_response import parse_hits

# Elasticsearch writes the id of a hit before its source, and its sort values after it.
_HIT_ID, _SORT = b'"_id":"', b'},"sort":["'
_QUOTE, _ESCAPE = b'"', b"\\"
# How `service.feed` begins the line of a record in a snapshot, and that of a change.
_LINE = re.compile(rb'\{"company":"[^"]*","id":"((?:[^"\\]|\\.)*)"')
_CHANGE = re.compile(
    rb'\{"resource":"(\w+)","company":"[^"]*","id":"((?:[^"\\]|\\.)*)","sequence":\d+,"time":"[^"]*",'
    rb'(?:"reason":"(\w+)")?'
)


def identifiers_of_hits(response: bytes | bytearray, ends: Sequence[int], count: int) -> list[str]:
    """Return the identifiers of the first `count` hits of a response, sorted by identifier or feed key.

    `ends` are the positions after their records, as `extract_records` finds them: sort values are next to them, so that
    no record is read. Without them the response is parsed.
    """
    text = b"\n".join(_cut_identifiers(response, ends[:count])) if ends else _ESCAPE
    if _ESCAPE in text:
        return [hit["_id"] for hit in parse_hits(response)[:count]]
    return text.decode().split("\n")


def _cut_identifiers(response: bytes | bytearray, ends: Sequence[int]) -> list[bytes | bytearray]:
    """Return the sort values, without the company that all of them begin with if they are feed keys.

    Return an escape, so that the response is parsed, if the first sort value is not next to its record.
    """
    index = response.index
    if not response.startswith(_SORT, ends[0] + len(RECORD_DELIMITER)):
        return [_ESCAPE]
    before, first = len(RECORD_DELIMITER) + len(_SORT), index(_HIT_ID) + len(_HIT_ID)
    identifier = response[first : index(_QUOTE, first)]
    start = ends[0] + before
    value = response[start : index(_QUOTE, start)]
    if not value.endswith(identifier):
        return [_ESCAPE]
    before += len(value) - len(identifier)
    return [response[end + before : index(_QUOTE, end + before)] for end in ends]


def identifiers_of_changes(entries: Iterable[bytes]) -> dict[tuple[str, str], list[str]]:
    """Return the identifiers of encoded changes, by resource and state: live, or the reason for a removal."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        alias, name, reason = _CHANGE.match(entry).groups()  # type: ignore[union-attr]
        found.setdefault((alias.decode(), reason.decode() if reason else LIVE), []).append(_text(name))
    return found


def identifiers_of_lines(lines: Iterable[JsonBytes]) -> list[str]:
    """Return the identifiers of the lines of a snapshot, of which the beginnings suffice."""
    return [_text(_LINE.match(line)[1]) for line in lines]  # type: ignore[index]


def _text(name: bytes) -> str:
    """Return the text of an encoded identifier."""
    return str(orjson.loads(b'"%b"' % name)) if _ESCAPE in name else name.decode()
