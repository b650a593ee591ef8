"""The stored document: search fields first, then the public record verbatim between TAB marks.

Elasticsearch keeps source bytes as sent and a raw TAB is illegal inside a JSON string, so in a search answer the
records are exactly what lies between TABs, whatever they hold. Nothing may re-render the source: no update by script,
no ingest pipeline, no engine-side reindex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = b"\t"
RECORD_KEY = b'"record":'


def document(search: Mapping[str, object], record: bytes) -> bytes:
    """Join search fields and an encoded record into the source bytes of one document, on one line."""
    return b"".join((orjson.dumps(search)[:-1], b",", RECORD_KEY, MARK, record, MARK, b"}"))


def feed_key(company: str, identifier: str) -> str:
    """Return the key that sorts an index: the company key, a colon, the record's identifier."""
    return f"{company}:{identifier}"


def feed_range(company: str, after: str = "") -> dict[str, str]:
    """Return the bounds of one company's feed keys behind the cursor `after`.

    A company key has neither `:` nor `;`, the character that follows `:`, so the bounds hold exactly one company.
    """
    return {"gt": feed_key(company, after), "lt": f"{company};"}
