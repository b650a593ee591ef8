"""What a search answers, decoded by type: the rows of doc values, and whole documents."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

Hit = TypeVar("Hit")


class Row(msgspec.Struct, gc=False, frozen=True):
    """What an index keeps of one record beside the record: `clock` in milliseconds since 1970.

    `reason` says why a record was deleted and is None for all others.
    """

    id: str
    feed_key: str
    version: int
    content: int
    clock: int
    sequence: int
    deleted: bool
    reason: str | None

    @property
    def company(self) -> str:
        """The key of the company that the record is of."""
        return self.feed_key.partition(":")[0]


class Stored(msgspec.Struct, gc=False, frozen=True):
    """One whole document. `source` is byte for byte what was sent."""

    id: str
    version: int
    seq_no: int
    source: bytes


class _Fields(msgspec.Struct, gc=False):
    """Doc values come as lists; every field here has one value."""

    id: tuple[str]
    feed_key: tuple[str]
    version: tuple[int]
    content: tuple[int]
    clock: tuple[int]
    sequence: tuple[int]
    deleted: tuple[bool]
    reason: tuple[str | None] = (None,)


class _Bookkeeping(msgspec.Struct, gc=False):
    fields: _Fields


class _Document(msgspec.Struct, rename={"id": "_id", "version": "_version", "seq_no": "_seq_no", "source": "_source"}):
    id: str
    version: int
    seq_no: int
    source: msgspec.Raw
    sort: list[Any] = []


class _Hits(msgspec.Struct, Generic[Hit]):
    # An empty list is left out of a filtered answer.
    hits: list[Hit] = []


class _Answer(msgspec.Struct, Generic[Hit]):
    hits: _Hits[Hit] = msgspec.field(default_factory=_Hits)


ROW_FIELDS = _Fields.__struct_fields__
_rows = msgspec.json.Decoder(_Answer[_Bookkeeping]).decode
_documents = msgspec.json.Decoder(_Answer[_Document]).decode


def rows_of(answer: bytes) -> list[Row]:
    """Decode a search answer whose hits have `ROW_FIELDS` as doc values; all else in it is skipped."""
    return [_row(hit.fields) for hit in _rows(answer).hits.hits]


def _row(fields: _Fields) -> Row:
    return Row(
        fields.id[0],
        fields.feed_key[0],
        fields.version[0],
        fields.content[0],
        fields.clock[0],
        fields.sequence[0],
        fields.deleted[0],
        fields.reason[0],
    )


def documents_of(answer: bytes) -> tuple[list[Stored], list[Any]]:
    """Decode a search answer of whole documents; return them and the sort values of the last one, for the next page."""
    hits = _documents(answer).hits.hits
    found = [Stored(hit.id, hit.version, hit.seq_no, bytes(hit.source)) for hit in hits]
    return found, hits[-1].sort if hits else []
