"""The identifiers of what a response sends, read from what Elasticsearch returned or from what was encoded.

They are read in the background, once the response is on its way: requests hand over references.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson

from mappings.audit_rows import LIVE
from mappings.stored_document import RECORD_DELIMITER
from service.search.search_response import parse_hits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.http.payload import JsonBytes

# Elasticsearch writes the id of a hit before its source.
_HIT_ID = b'"_id":"'
_QUOTE, _ESCAPE = b'"', b"\\"
# How `service.feed` begins the line of a record in a snapshot, and that of a change.
_LINE = re.compile(rb'\{"company":"[^"]*","id":"((?:[^"\\]|\\.)*)"')
_CHANGE = re.compile(
    rb'\{"resource":"(\w+)","company":"[^"]*","id":"((?:[^"\\]|\\.)*)","sequence":\d+,"time":"[^"]*",'
    rb'(?:"reason":"(\w+)")?'
)


def identifiers_of_hits(response: bytes | bytearray, records: Sequence[JsonBytes]) -> list[str]:
    """Return the identifiers of the first hits of a response, as many as there are records, which are skipped."""
    try:
        text = b"\n".join(_cut_identifiers(response, records))
    except ValueError:  # something other than the indexer wrote one of the documents
        text = _ESCAPE
    if _ESCAPE in text:
        return [hit["_id"] for hit in parse_hits(response)[: len(records)]]
    return text.decode().split("\n") if records else []


def _cut_identifiers(response: bytes | bytearray, records: Sequence[JsonBytes]) -> list[bytes | bytearray]:
    index, names, end = response.index, list[bytes | bytearray](), 0
    for record in records:
        start = index(_HIT_ID, end) + len(_HIT_ID)
        close = index(_QUOTE, start)
        names.append(response[start:close])
        end = index(RECORD_DELIMITER, close) + len(record)
    return names


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
