"""Documents that are read by identifier, in the response of `_mget`.

It returns the stored source as a search does, at less than half the cost, but checks nothing: its documents have not
passed any filter yet.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import orjson

from mappings.stored_document import RECORD_DELIMITER, RECORD_KEY
from service.http.payload import JsonBytes
from service.search.engine_failures import malformed_response, status_failure
from service.search.shards.served_shards import NoLongerServed, Reach, ServedShards
from service.telemetry.counters import UNMARKED_RESPONSES

_MISSING_INDEX, _MISSING_ROUTING = "index_not_found_exception", "routing_missing_exception"
# `_mget` reports failures of a document, or of its shard, in a response with status 200: the status of a search.
_STATUSES = {
    "security_exception": 403,
    "es_rejected_execution_exception": 429,
    "circuit_breaking_exception": 429,
}
_ABSENT = msgspec.Raw(b"")


class SeveralShards(NoLongerServed):
    """The index was taken to have one shard, and has several."""


class Document(NamedTuple):
    """The search fields of a document and its encoded record, empty for a tombstone; `source` is both as stored."""

    identifier: str
    fields: Mapping[str, Any]
    record: JsonBytes
    source: bytes


class Documents(NamedTuple):
    """The documents that a read has found in a generation."""

    generation: str
    found: list[Document]


class _Failure(msgspec.Struct):
    type: str


class _Entry(msgspec.Struct, rename={"index": "_index", "identifier": "_id", "source": "_source"}, gc=False):
    index: str
    identifier: str
    found: bool = False
    source: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT


class _Response(msgspec.Struct):
    docs: list[_Entry]


_decode = msgspec.json.Decoder(_Response).decode
_failure = msgspec.json.Decoder(_Failure).decode


def read_places(identifiers: Iterable[str], served: ServedShards | None, reach: Reach) -> list[dict[str, str]]:
    """Return where to read documents: their identifiers, in an index of several shards with each shard's routing."""
    if served is None:
        return [{"_id": name} for name in identifiers]
    return [
        {"_id": name, "routing": routing}
        for name in identifiers
        for routing in served.record_routings(name, reach.companies)
    ]


def read_documents(response: bytes | bytearray, asked: int) -> Documents:
    """Return the documents that exist, of a read of `asked` documents, at least one.

    Raises NoLongerServed if the index is gone, and another ApiError unless all could be read.
    """
    try:
        entries = _decode(response).docs
        for entry in entries:
            if error := bytes(entry.error):
                raise _failed(_failure(error).type, error)
        [index] = {entry.index for entry in entries}
        if len(entries) != asked:
            raise malformed_response(response)
        return Documents(index, [_document(entry) for entry in entries if entry.found])
    except (msgspec.DecodeError, ValueError, TypeError):
        raise malformed_response(response) from None


def _failed(kind: str, error: bytes) -> Exception:
    failure = status_failure(_STATUSES.get(kind, 404 if kind == _MISSING_INDEX else 503), error, None)
    reason = getattr(failure, "reason", "")
    if kind == _MISSING_ROUTING:
        return SeveralShards(reason)
    return NoLongerServed(reason) if kind == _MISSING_INDEX else failure


def _document(entry: _Entry) -> Document:
    source = bytes(entry.source)
    head, _, rest = source.partition(RECORD_DELIMITER)
    record, _, end = rest.partition(RECORD_DELIMITER)
    if head.endswith(RECORD_KEY) and end == b"}":
        return Document(entry.identifier, orjson.loads(head + b"null}"), record, source)
    # A tombstone, or a document that something other than the indexer wrote.
    fields = orjson.loads(source)
    if "record" not in fields:
        return Document(entry.identifier, fields, b"", source)
    UNMARKED_RESPONSES.inc()
    return Document(entry.identifier, fields, orjson.dumps(fields["record"]), source)
