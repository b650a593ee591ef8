"""Documents of a search answer as they are stored: search fields decoded, the record cut out between its marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson

from mappings.document import MARK, RECORD_KEY
from service.answer import hits as parsed_hits
from service.failures import unintelligible
from service.metrics import UNMARKED_ANSWERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.answer import Encoded

# Neither can stand within a text of the search fields, whose quotes are escaped; records are passed over.
SOURCE_KEY = b'"_source":'
_SORT = b',"sort":['


class Head(msgspec.Struct, gc=False):
    """The search fields that the feed tells of, or judges by."""

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


class Hit(NamedTuple):
    """One document: a tombstone has no record."""

    head: Head
    record: Encoded | None


_head = msgspec.json.Decoder(Head).decode


def read(answer: bytes | bytearray) -> list[Hit]:
    """Return the documents of an answer in order."""
    try:
        found = list(_cut(answer))
    except msgspec.DecodeError:
        raise unintelligible(answer) from None
    if all(hit.record is not None or hit.head.deleted for hit in found):
        return found
    UNMARKED_ANSWERS.inc()
    return [_parsed(hit["_source"]) for hit in parsed_hits(answer)]


def _cut(answer: bytes | bytearray) -> Iterator[Hit]:
    view, find = memoryview(answer), answer.find
    start = find(SOURCE_KEY)
    while start >= 0:
        start += len(SOURCE_KEY)
        end, mark = find(_SORT, start), find(MARK, start)
        if 0 <= mark < end and answer.endswith(RECORD_KEY, start, mark):
            end = find(MARK, mark + 1)
            # The comma before the record's key gives way to the brace that the record would stand before.
            yield Hit(_head(answer[start : mark - len(RECORD_KEY) - 1] + b"}"), view[mark + 1 : end])
        else:
            yield Hit(_head(answer[start:end]), None)
        start = find(SOURCE_KEY, end)


def _parsed(source: dict[str, Any]) -> Hit:
    record = source.pop("record", None)
    return Hit(msgspec.convert(source, Head), None if record is None else orjson.dumps(record))
