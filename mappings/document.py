"""The stored document: search fields first, then the public record verbatim between TAB marks.

Elasticsearch keeps source bytes as sent and a raw TAB is illegal inside a JSON string, so in a search answer the
records are exactly what lies between TABs, whatever they hold. Nothing may re-render the source: no update by script,
no ingest pipeline, no engine-side reindex.

The stamp, `clock` and `sequence`, is the last of the search fields: it can be replaced without reading the others.
"""

from __future__ import annotations

import re
from enum import StrEnum

MARK = b"\t"
RECORD_KEY = b'"record":'

_STAMP_KEY = b',"clock":'
_STAMP = re.compile(rb',"clock":\d+,"sequence":\d+(?=\}\Z|,"record":\t)')


class Reason(StrEnum):
    """Why a document is a tombstone (search field `reason`)."""

    DELETED = "deleted"  # the source said so
    VANISHED = "vanished"  # a full source lacks it
    MOVED = "moved"  # departures only: another company has it now


def document(head: bytes, clock: int, sequence: int, record: bytes | None) -> bytes:
    """Join the source bytes of one document, on one line.

    `head` is the JSON object of all search fields but the stamp, one at least, without its closing brace; `record` is
    the encoded record, None for a tombstone.
    """
    if record is None:
        return b'%b,"clock":%d,"sequence":%d}' % (head, clock, sequence)
    return b"".join((head, b',"clock":%d,"sequence":%d,"record":\t' % (clock, sequence), record, b"\t}"))


def restamped(source: bytes, clock: int, sequence: int) -> bytes:
    """Return the source of a document under another stamp; raise ValueError for one that has none in its place."""
    mark = source.find(MARK)
    # Behind the stamp stands no other key of this name, and a text cannot look like a key: its quotes are escaped.
    start = source.rfind(_STAMP_KEY, 0, mark if mark >= 0 else len(source))
    found = _STAMP.match(source, start) if start >= 0 else None
    if found is None:
        raise ValueError("The document has no stamp behind its search fields: the indexer did not write it.")
    return b"".join((source[:start], b',"clock":%d,"sequence":%d' % (clock, sequence), source[found.end() :]))


def feed_key(company: str, identifier: str) -> str:
    """Return the key that sorts an index: the company key, a colon, the record's identifier."""
    return f"{company}:{identifier}"


def identifier_of(key: str) -> str:
    """Return the record's identifier of a feed key: a company key has no colon."""
    return key.partition(":")[2]


def feed_range(company: str, after: str = "") -> dict[str, str]:
    """Return the bounds of one company's feed keys behind the cursor `after`.

    A company key has neither `:` nor `;`, the character that follows `:`, so the bounds hold exactly one company.
    """
    return {"gt": feed_key(company, after), "lt": f"{company};"}


def departure_id(company: str, identifier: str) -> str:
    """Return the id of the document that says that a record has left a company.

    Neither a company key (letters, digits, `_`, `-`) nor an identifier (`record_type.IDENTIFIER_PATTERN`) has a slash,
    so it is the id of no record.
    """
    return f"{company}/{identifier}"


def split_id(document_id: str) -> tuple[str, str]:
    """Return the company that a departure is from, empty for a record's own document, and the record's identifier."""
    company, _, identifier = document_id.rpartition("/")
    return company, identifier


def is_departure(document_id: str) -> bool:
    """Whether the id is that of a departure."""
    return "/" in document_id
