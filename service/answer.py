"""Reads the raw bytes of a search answer: is it whole, which records does it hold."""

from __future__ import annotations

import re
from typing import Any

import orjson

from mappings.document import MARK, RECORD_KEY
from service.errors import DeadlinePassed, EngineUnavailable

# Elasticsearch writes these members first and in this order; anything else is parsed and judged by its parts.
_WHOLE = re.compile(
    rb'\{"took":\d+,"timed_out":false,"_shards":\{"total":\d+,"successful":\d+,"skipped":\d+,"failed":0\}'
)
_HIT = b'"_index":"'

# One record as JSON text: bytes of its own, or a view into the answer that it came in.
Encoded = bytes | memoryview


def refuse_partial(answer: bytes) -> None:
    """Raise unless every shard answered in time: a page that lacks rows must never look whole."""
    if _WHOLE.match(answer):
        return
    parsed = orjson.loads(answer)
    if parsed["timed_out"]:
        raise DeadlinePassed
    if parsed["_shards"]["failed"]:
        raise EngineUnavailable(f"{parsed['_shards']['failed']} of {parsed['_shards']['total']} shards failed.")


def records(answer: bytes) -> list[Encoded]:
    """Return the encoded records of a search answer in order, cut out between their TAB marks without being copied.

    Where a document lacks its marks, because something else than the indexer wrote it, the whole answer is parsed.
    """
    cut = _between_marks(answer)
    if cut is not None:
        return cut
    return [orjson.dumps(hit["_source"]["record"]) for hit in hits(answer)]


def _between_marks(answer: bytes) -> list[Encoded] | None:
    found: list[Encoded] = []
    view = memoryview(answer)
    end = 0
    while (mark := answer.find(MARK, end)) >= 0:
        # One hit begins between two records; more of them means that a record came without marks.
        if answer.count(_HIT, end, mark) != 1 or not answer.endswith(RECORD_KEY, end, mark):
            return None
        end = answer.find(MARK, mark + 1)
        if end < 0 or not answer.startswith(b"}", end + 1):
            return None
        found.append(view[mark + 1 : end])
        end += 1
    return found if answer.count(_HIT, end) == 0 else None


def hits(answer: bytes) -> list[dict[str, Any]]:
    """Return the parsed hits of a search answer."""
    parsed: list[dict[str, Any]] = orjson.loads(answer)["hits"]["hits"]
    return parsed


def total(answer: bytes) -> int:
    """Return how many documents match, of an answer that counted them all."""
    # The count stands before the first hit, so the records need not be parsed for it.
    match = re.search(rb'"total":\{"value":(\d+),"relation":"eq"\}', answer[:400])
    return int(match[1]) if match else int(orjson.loads(answer)["hits"]["total"]["value"])
