"""Raw responses of Elasticsearch: whether they are complete, the failures they report, and their records."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec
import orjson

from cluster.http.nodes import NODE_LOSS_TYPES
from mappings.stored_document import RECORD_DELIMITER, RECORD_KEY
from service.errors import ApiError, DeadlineExceeded, EngineUnavailable, InternalError, RebuildDue
from service.http.responses import JsonBytes
from service.telemetry.observation import ENGINE_FAILURES, UNMARKED_RESPONSES

CountedError = TypeVar("CountedError", bound=ApiError)
HitT = TypeVar("HitT")

# Bytes of an error response or of a query that are logged.
_LOGGED_BYTES = 2_000
# Matches members only, at any depth: inside strings quotes are escaped.
_TYPE = re.compile(rb'"type":"([a-z_]+)"')
# Wraps the actual cause.
_WRAPPER = b"search_phase_execution_exception"
_NODE_LOST = frozenset(name.encode() for name in NODE_LOSS_TYPES)
_TIMED_OUT = b"search_timeout_exception"
# Elasticsearch reports all of these as 400, a fault of the request: a search that an operator cancelled, a closed
# index, and an index of another version that lacks a field of the query.
_MISSING_FIELD_MESSAGES = (b"No field mapping can be found for the field", b"in order to sort on")
_MISSING = "missing"
_NO_INDEX = re.compile(rb'\{"error":\{"root_cause":\[\{"type":"index_not_found_exception","reason":"([^"\\]+)"')
_CAUSE_KINDS = {b"task_cancelled_exception": "cancelled", b"index_closed_exception": _MISSING}


class NodeLost(EngineUnavailable):
    """The connection to a node broke before the response was complete; another node may respond."""


def count_failure(kind: str, error: CountedError) -> CountedError:
    """Count a failure by its kind, and return the error to raise."""
    ENGINE_FAILURES.labels(kind).inc()
    return error


def malformed_response(response: bytes | bytearray) -> EngineUnavailable:
    """Return the error for a successful response that is malformed or truncated."""
    reason = f"Elasticsearch sent a malformed response of {len(response)} bytes: {logged_text(response)}"
    return count_failure("unintelligible", EngineUnavailable(reason))


def status_failure(status: int, response: bytes | bytearray, query: bytes | None) -> ApiError:
    """Return the error for a status other than 200; the text of Elasticsearch goes to the log only."""
    reason = f"Elasticsearch responded {status}: {logged_text(response)}"
    kind = _kind(status, response)
    if kind == "timeout":
        return count_failure(kind, DeadlineExceeded())
    if kind == "node":
        return count_failure(kind, NodeLost(reason))
    if kind == _MISSING and _lacks_field(status, response):
        return count_failure(kind, RebuildDue(reason=reason))
    if kind in {"defect", "forbidden"}:
        asked = "" if query is None else f" to the query {logged_text(query)}"
        return count_failure(kind, InternalError(reason + asked))
    return count_failure(kind, EngineUnavailable(reason))


def _kind(status: int, response: bytes | bytearray) -> str:
    """Classify an error response by its status and the types of all its causes."""
    causes = set(_TYPE.findall(response)) - {_WRAPPER}
    # Its status is 429, which usually means a rejection; older versions send 504.
    if _TIMED_OUT in causes:
        return "timeout"
    if known := causes & _CAUSE_KINDS.keys():
        return _CAUSE_KINDS[known.pop()]
    if causes and causes <= _NODE_LOST:
        return "node"
    if _lacks_field(status, response):
        return _MISSING
    # 404 is a missing alias: an operational fault, never an empty list.
    by_status = {401: "forbidden", 403: "forbidden", 404: _MISSING, 429: "rejected"}
    return by_status.get(status, "unavailable" if status in {408, 502, 503, 504} else "defect")


def _lacks_field(status: int, response: bytes | bytearray) -> bool:
    return status == 400 and any(message in response for message in _MISSING_FIELD_MESSAGES)


def logged_text(raw: bytes | bytearray) -> str:
    """Return the beginning of a response or a query; of a missing index, as before the first load, only a sentence."""
    missing = _NO_INDEX.match(raw)
    return (missing[1] if missing else raw[:_LOGGED_BYTES]).decode(errors="replace")


# Elasticsearch writes these members first and in this order; any other response is parsed. Skipped shards count as
# successful.
_COMPLETE_START = re.compile(
    rb'\{(?:"pit_id":"[^"]*",)?"took":\d+,"timed_out":false,"_shards":\{"total":([1-9]\d*),"successful":\1,"skipped":\d+,"failed":0\},'
)
# The ends of the list of hits, of the object around it and of the response. No hit is followed by them.
_END = b"]}}"
_HIT = b'"_index":"'
_GENERATION = re.compile(_HIT + rb'([^"]+)"')
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


def hits_generation(response: bytes | bytearray) -> str:
    """Return the name of the index that the first hit is in, empty without one: a search reads one generation."""
    match = _GENERATION.search(response)
    return match[1].decode() if match else ""


def shard_count(response: bytes | bytearray) -> int:
    match = _COMPLETE_START.match(response)
    return int(match[1]) if match else int(orjson.loads(response).get("_shards", {}).get("total", 1))


def document_source(response: bytes | bytearray, identifier: str) -> dict[str, Any]:
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


def nothing_found(body: Mapping[str, Any]) -> bytes:
    """Return the response of a search that finds nothing, with the aggregations that its body asks for."""
    hits = {"total": {"value": 0, "relation": "eq"}, "hits": []}
    shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
    return orjson.dumps({"_shards": shards, "hits": hits, "aggregations": _of_nothing(body.get("aggs", {}))})


def _of_nothing(aggregations: Mapping[str, Any]) -> dict[str, Any]:
    nothing = {"value": 0, "doc_count": 0, "buckets": []}
    return {name: nothing | _of_nothing(declared.get("aggs", {})) for name, declared in aggregations.items()}


def parse_hits(response: bytes | bytearray) -> list[dict[str, Any]]:
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


_Members = dict[str, msgspec.Raw]


class _Source(msgspec.Struct, gc=False):
    record: msgspec.Raw
    exact: _Members = {}


class _Hit(msgspec.Struct, rename={"source": "_source"}, gc=False):
    source: _Source


class _Hits(msgspec.Struct, Generic[HitT], gc=False):
    hits: list[HitT]


class _Response(msgspec.Struct, Generic[HitT], gc=False):
    hits: _Hits[HitT]


def hits_decoder(hit: type[HitT]) -> Callable[[bytes | bytearray], list[HitT]]:
    """Return the decoder of the hits of a response, each of a type; it raises ApiError for any other response."""
    of: Any = _Response
    decode: Callable[[bytes | bytearray], _Response[HitT]] = msgspec.json.Decoder(of[hit]).decode

    def decoded(response: bytes | bytearray) -> list[HitT]:
        try:
            return decode(response).hits.hits
        except msgspec.DecodeError:
            raise malformed_response(response) from None

    return decoded


_HITS_START = b'{"hits":{"hits":['
_HIT_START = b"{" + _HIT
_RECORD_END = RECORD_DELIMITER + b"}"


def split_hits(response: bytes | bytearray, at_least: int) -> Iterator[bytes | bytearray]:
    """Yield a response in parts of some bytes or more, each a response with the next hits.

    Between a delimiter and the next one, no text of a record can be taken for the start of a hit.
    """
    if len(response) <= at_least:
        yield response
        return
    view, start = memoryview(response), response.find(_HIT_START)
    while (end := response.find(_RECORD_END, start + at_least)) > 0 and (
        following := response.find(_HIT_START, end)
    ) > 0:
        yield b"".join((_HITS_START, view[start : following - 1], _END))
        start = following
    yield b"".join((_HITS_START, view[start:])) if start > 0 else bytes(response)


_decode_exact = hits_decoder(_Hit)
_decode_source = msgspec.json.Decoder(_Source).decode
_members_of = msgspec.json.Decoder(_Members).decode
_encode = msgspec.json.Encoder().encode


def extract_exact_records(response: bytes | bytearray, names: Collection[str]) -> list[JsonBytes]:
    """Return the encoded records of a search response in order, with the exact values of the members `names`.

    Documents of an earlier version have none: their records are returned as they are stored.
    """
    return [_exact_record(hit.source, names) for hit in _decode_exact(response)]


def exact_record(source: bytes, names: Collection[str]) -> JsonBytes:
    """Return the encoded record of a stored document, with the exact values of the members `names`."""
    return _exact_record(_decode_source(source), names)


def _exact_record(source: _Source, names: Collection[str]) -> JsonBytes:
    shown = {name: value for name, value in source.exact.items() if name in names}
    return _encode(_members_of(source.record) | shown) if shown else memoryview(source.record)
