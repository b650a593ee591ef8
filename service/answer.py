"""Reads the raw bytes of a search answer: is it whole, which records does it hold."""

from __future__ import annotations

import re
from typing import Any

import orjson

from mappings.document import MARK, RECORD_KEY
from service.errors import DeadlinePassed, EngineUnavailable
from service.failures import failed, unintelligible
from service.metrics import UNMARKED_ANSWERS

# Elasticsearch writes these members first and in this order; anything else is parsed and judged by its parts. Shards
# that were skipped count as successful.
_WHOLE = re.compile(
    rb'\{(?:"pit_id":"[^"]*",)?"took":\d+,"timed_out":false,"_shards":\{"total":([1-9]\d*),"successful":\1,"skipped":\d+,"failed":0\},'
)
# The ends of the list of hits, of the object round it and of the answer. Within an answer no hit is followed by them.
_END = b"]}}"
_HIT = b'"_index":"'
_BRACE = ord("}")

# One record as JSON text: bytes of its own, or a view into the answer that it came in.
Encoded = bytes | memoryview


def refuse_partial(answer: bytes | bytearray) -> None:
    """Raise unless every shard answered in time and all of it came: a page that lacks rows must never look whole."""
    if _WHOLE.match(answer) and answer.endswith(_END):
        return
    try:
        parsed = orjson.loads(answer)
        shards, has_timed_out = parsed["_shards"], parsed["timed_out"]
        total, successful, count = shards["total"], shards["successful"], shards["failed"]
        is_short = parsed.get("terminated_early", False) or not parsed["hits"]
    except (ValueError, KeyError, TypeError):
        raise unintelligible(answer) from None
    if has_timed_out is not False:
        raise failed("timeout", DeadlinePassed())
    if count or is_short or successful != total or not total:
        raise failed("partial", EngineUnavailable(f"{successful} of {total} shards answered, {count} failed."))


def source(answer: bytes | bytearray, identifier: str) -> dict[str, Any]:
    """Return the source of a document that was asked for by its identifier."""
    try:
        parsed = orjson.loads(answer)
        if parsed["_id"] != identifier:
            raise unintelligible(answer)
        found: dict[str, Any] = parsed["_source"]
    except (ValueError, KeyError, TypeError):
        raise unintelligible(answer) from None
    return found


def records(answer: bytes | bytearray, asked: int) -> list[Encoded]:
    """Return the encoded records of a search answer in order, cut out between their TAB marks without being copied.

    `asked` is the size that the search was given: as many marked records as that are all there are. Of fewer it has to
    be made sure that none lacks its marks, because something else than the indexer wrote it; if one does, the whole
    answer is parsed.
    """
    cut = _between_marks(answer)
    if cut is None or len(cut) != asked:
        cut = _between_marks(answer, counting=True)
    if cut is not None:
        return cut
    UNMARKED_ANSWERS.inc()
    return [orjson.dumps(hit["_source"]["record"]) for hit in hits(answer)]


def _between_marks(answer: bytes | bytearray, *, counting: bool = False) -> list[Encoded] | None:
    """Cut; return None where a mark is not in its place or, with `counting`, where a hit has none."""
    found: list[Encoded] = []
    view = memoryview(answer)
    find, endswith = answer.find, answer.endswith
    end = 0
    while (mark := find(MARK, end)) >= 0:
        if not endswith(RECORD_KEY, end, mark) or (counting and answer.count(_HIT, end, mark) != 1):
            return None
        end = find(MARK, mark + 1)
        if end < 0 or answer[end + 1] != _BRACE:
            return None
        found.append(view[mark + 1 : end])
        end += 1
    return None if counting and answer.count(_HIT, end) else found


def hits(answer: bytes | bytearray) -> list[dict[str, Any]]:
    """Return the parsed hits of a search answer."""
    try:
        parsed: list[dict[str, Any]] = orjson.loads(answer)["hits"]["hits"]
    except (ValueError, KeyError, TypeError):
        raise unintelligible(answer) from None
    return parsed


def total(answer: bytes | bytearray) -> int:
    """Return how many documents match, of an answer that counted them all."""
    # The count stands before the first hit, so the records need not be parsed for it.
    match = re.search(rb'"total":\{"value":(\d+),"relation":"eq"\}', answer[:400])
    return int(match[1]) if match else int(orjson.loads(answer)["hits"]["total"]["value"])
