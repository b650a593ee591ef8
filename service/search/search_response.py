"""Read raw search responses: check that they are complete, and extract the records."""

import re
from typing import Any

import orjson

from mappings.stored_document import RECORD_DELIMITER, RECORD_KEY
from service.errors import DeadlineExceeded, EngineUnavailable
from service.http.payload import JsonBytes
from service.search.engine_failures import count_failure, malformed_response
from service.telemetry.counters import UNMARKED_RESPONSES

# Elasticsearch writes these members first and in this order; any other response is parsed. Skipped shards count as
# successful.
_COMPLETE_START = re.compile(
    rb'\{(?:"pit_id":"[^"]*",)?"took":\d+,"timed_out":false,"_shards":\{"total":([1-9]\d*),"successful":\1,"skipped":\d+,"failed":0\},'
)
# The ends of the list of hits, of the object around it and of the response. No hit is followed by them.
_END = b"]}}"
_HIT = b'"_index":"'
_BRACE = ord("}")


def require_complete(response: bytes | bytearray) -> None:
    """Raise ApiError unless every shard responded in time and nothing is cut off: no page may silently lack rows."""
    if _COMPLETE_START.match(response) and response.endswith(_END):
        return
    try:
        parsed = orjson.loads(response)
        shards, has_timed_out = parsed["_shards"], parsed["timed_out"]
        total, successful, failed = shards["total"], shards["successful"], shards["failed"]
        is_truncated = parsed.get("terminated_early", False) or not parsed["hits"]
    except (ValueError, KeyError, TypeError):
        raise malformed_response(response) from None
    if has_timed_out is not False:
        raise count_failure("timeout", DeadlineExceeded())
    if failed or is_truncated or successful != total or not total:
        raise count_failure("partial", EngineUnavailable(f"{successful} of {total} shards responded, {failed} failed."))


def shard_count(response: bytes | bytearray) -> int:
    """Return how many shards a successful response is from."""
    match = _COMPLETE_START.match(response)
    return int(match[1]) if match else int(orjson.loads(response).get("_shards", {}).get("total", 1))


def document_source(response: bytes | bytearray, identifier: str) -> dict[str, Any]:
    """Return the source from the response to a GET of a document."""
    try:
        parsed = orjson.loads(response)
        if parsed["_id"] != identifier:
            raise malformed_response(response)
        source: dict[str, Any] = parsed["_source"]
    except (ValueError, KeyError, TypeError):
        raise malformed_response(response) from None
    return source


def extract_records(response: bytes | bytearray, size: int, ends: list[int] | None = None) -> list[JsonBytes]:
    """Return the encoded records of a search response in order: slices between TAB delimiters, not copies.

    `size` is the size of the search: that many delimited records are all there are. With fewer, the hits are counted
    to detect records without delimiters, which something other than the indexer wrote; then the response is parsed.
    `ends` receives the position after each record, nothing if the response is parsed.
    """
    records = _slice_records(response, ends)
    if records is None or len(records) != size:
        records = _slice_records(response, ends, count_hits=True)
    if records is not None:
        return records
    if ends is not None:
        ends.clear()
    UNMARKED_RESPONSES.inc()
    return [orjson.dumps(hit["_source"]["record"]) for hit in parse_hits(response)]


def _slice_records(
    response: bytes | bytearray, ends: list[int] | None = None, *, count_hits: bool = False
) -> list[JsonBytes] | None:
    """Return None if a delimiter is misplaced or, with `count_hits`, if a hit has none."""
    records: list[JsonBytes] = []
    if ends is not None:
        ends.clear()
    view = memoryview(response)
    find, endswith = response.find, response.endswith
    end = 0
    while (start := find(RECORD_DELIMITER, end)) >= 0:
        if not endswith(RECORD_KEY, end, start) or (count_hits and response.count(_HIT, end, start) != 1):
            return None
        end = find(RECORD_DELIMITER, start + 1)
        if end < 0 or response[end + 1] != _BRACE:
            return None
        records.append(view[start + 1 : end])
        if ends is not None:
            ends.append(end)
        end += 1
    return None if count_hits and response.count(_HIT, end) else records


def parse_hits(response: bytes | bytearray) -> list[dict[str, Any]]:
    """Return the parsed hits of a search response."""
    try:
        parsed: list[dict[str, Any]] = orjson.loads(response)["hits"]["hits"]
    except (ValueError, KeyError, TypeError):
        raise malformed_response(response) from None
    return parsed


def total_hits(response: bytes | bytearray) -> int:
    """Return the total of a search with `track_total_hits`."""
    # The total comes before the first hit: no record needs to be parsed.
    match = re.search(rb'"total":\{"value":(\d+),"relation":"eq"\}', response[:400])
    return int(match[1]) if match else int(orjson.loads(response)["hits"]["total"]["value"])


def sum_of(name: str, response: bytes | bytearray) -> int:
    """Return the sum of whole numbers, below 2^53, that an aggregation has under `name`."""
    return int(orjson.loads(response)["aggregations"][name]["value"])
