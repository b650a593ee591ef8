"""Documents of a search response: search fields decoded, the record cut out between its delimiters."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, cast

import msgspec
import orjson

from mappings.display import ADDRESS_SWITCH, refuses
from mappings.shown_content import WHOLE_CONTENT, ShownContent
from mappings.stored_document import RECORD_DELIMITER, RECORD_KEY
from service.errors import RebuildDue
from service.http.payload import JsonBytes
from service.search.engine_failures import malformed_response
from service.search.search_response import parse_hits as parsed_hits
from service.telemetry.counters import UNMARKED_RESPONSES

# Neither occurs in the search fields, whose strings have escaped quotes; records are skipped.
SOURCE_KEY = b'"_source":'
_SORT_KEY = b',"sort":['


class DocumentHeader(msgspec.Struct, gc=False):
    """The search fields that the feed publishes or filters by."""

    id: str
    feed_key: str
    company: str
    clock: int  # milliseconds since 1970
    sequence: int
    content: int  # signed 64 bits
    deleted: bool = False
    reason: str | None = None
    moved_to: str | None = None
    status: str | None = None
    deactivated: int | None = None  # milliseconds since 1970
    content_without_address: int | None = None  # for keys with a display licence, of records that hide their address


DecodeHeader = Callable[[bytes | bytearray], "DocumentHeader"]


class Hit(NamedTuple):
    """One document; the record of a tombstone is None."""

    header: DocumentHeader
    record: JsonBytes | None


@cache
def _header_type(content: ShownContent) -> type[DocumentHeader]:
    """Return the type of a header whose hashes are read from the search fields of that content."""
    renamed = {"content": content.content, "content_without_address": content.without_address.content}
    own: list[tuple[str, Any] | tuple[str, Any, Any]] = [("content", int)]
    if content.address:
        own.append(("content_without_address", int | None, None))
    defined: Any = msgspec.defstruct("DocumentHeader", own, bases=(DocumentHeader,), rename=renamed, gc=False)
    return cast("type[DocumentHeader]", defined)


@cache
def _header_decoder(content: ShownContent) -> DecodeHeader:
    return msgspec.json.Decoder(_header_type(content)).decode


_decode_tombstone = _header_decoder(WHOLE_CONTENT)


def decode_hits(response: bytes | bytearray, content: ShownContent = WHOLE_CONTENT) -> list[Hit]:
    """Return the documents of a response, in order. `content` is the hash that is shown of records.

    Raise RebuildDue for a document of an index without the hash that a display licence needs.
    """
    hits = _decode_hits(response, content)
    for hit in hits if content.address else ():
        if hit.record is not None and refuses(hit.record, ADDRESS_SWITCH):
            hit.header.content = _required(hit.header.content_without_address)
    return hits


def _required(content: int | None) -> int:
    if content is None:
        raise RebuildDue
    return content


def _decode_hits(response: bytes | bytearray, content: ShownContent) -> list[Hit]:
    try:
        hits = list(_split_hits(response, _header_decoder(content)))
    except msgspec.DecodeError:
        raise malformed_response(response) from None
    if all(hit.record is not None or hit.header.deleted for hit in hits):
        return hits
    UNMARKED_RESPONSES.inc()
    return [_parse_hit(hit["_source"], _header_type(content)) for hit in parsed_hits(response)]


def _split_hits(response: bytes | bytearray, decode: DecodeHeader) -> Iterator[Hit]:
    view, find = memoryview(response), response.find
    start = find(SOURCE_KEY)
    while start >= 0:
        start += len(SOURCE_KEY)
        delimiter = find(RECORD_DELIMITER, start)
        # The sort values end the hit of a tombstone; the search does not reach into a record, which is much longer.
        end = find(_SORT_KEY, start, delimiter if delimiter >= 0 else len(response))
        if end < 0 <= delimiter and response.endswith(RECORD_KEY, start, delimiter):
            end = find(RECORD_DELIMITER, delimiter + 1)
            # Replace `,"record":` by the closing brace.
            head = response[start : delimiter - len(RECORD_KEY) - 1] + b"}"
            yield Hit(decode(head), view[delimiter + 1 : end])
        else:
            end = find(_SORT_KEY, start) if end < 0 else end
            yield Hit(_decode_tombstone(response[start:end]), None)
        start = find(SOURCE_KEY, end)


def _parse_hit(source: dict[str, Any], header_type: type[DocumentHeader]) -> Hit:
    record = source.pop("record", None)
    if record is None:
        header_type = DocumentHeader
    return Hit(msgspec.convert(source, header_type), None if record is None else orjson.dumps(record))
