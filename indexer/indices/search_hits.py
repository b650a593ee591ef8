"""Typed decoding of search responses: rows of doc values, and whole documents."""

from typing import Any, Generic, TypeVar

import msgspec

from indexer.clock import UNDATED

Hit = TypeVar("Hit")


class IndexRow(msgspec.Struct, gc=False, frozen=True):
    """The bookkeeping fields of one record. `clock` is in milliseconds since 1970.

    `reason` is why the record was deleted, None for all others. `version` orders the states of a record: UNDATED, below
    all others, if its time cannot be right. `stored_version` is the one that Elasticsearch compares with.
    """

    id: str
    feed_key: str
    version: int
    content: int
    clock: int
    sequence: int
    deleted: bool
    reason: str | None
    stored_version: int

    @property
    def company(self) -> str:
        """The key of the record's company."""
        return self.feed_key.partition(":")[0]


class StoredDocument(msgspec.Struct, gc=False, frozen=True):
    """One whole document. `source` has exactly the bytes that were sent."""

    id: str
    version: int
    seq_no: int
    source: bytes


class _DocValues(msgspec.Struct, gc=False, rename={"stored_version": "_version"}):
    """Doc values are lists; every field here has one value."""

    id: tuple[str]
    feed_key: tuple[str]
    version: tuple[int]
    content: tuple[int]
    clock: tuple[int]
    sequence: tuple[int]
    deleted: tuple[bool]
    stored_version: tuple[int]
    reason: tuple[str | None] = (None,)


class _RowHit(msgspec.Struct, gc=False):
    fields: _DocValues


class _DocumentHit(
    msgspec.Struct, rename={"id": "_id", "version": "_version", "seq_no": "_seq_no", "source": "_source"}
):
    id: str
    version: int
    seq_no: int
    source: msgspec.Raw
    sort: list[Any] = []


class _Hits(msgspec.Struct, Generic[Hit]):
    # A filtered response omits an empty list.
    hits: list[Hit] = []


class _SearchResponse(msgspec.Struct, Generic[Hit]):
    hits: _Hits[Hit] = msgspec.field(default_factory=_Hits)


ROW_FIELDS = _DocValues.__struct_encode_fields__
_rows = msgspec.json.Decoder(_SearchResponse[_RowHit]).decode
_documents = msgspec.json.Decoder(_SearchResponse[_DocumentHit]).decode


def decode_rows(response: bytes, first_future: int) -> list[IndexRow]:
    """Decode a search response whose hits have `ROW_FIELDS` as doc values.

    Versions from `first_future` on are UNDATED.
    """
    return [_row(hit.fields, first_future) for hit in _rows(response).hits.hits]


def _row(fields: _DocValues, first_future: int) -> IndexRow:
    version = fields.version[0]
    return IndexRow(
        fields.id[0],
        fields.feed_key[0],
        version if version < first_future else UNDATED,
        fields.content[0],
        fields.clock[0],
        fields.sequence[0],
        fields.deleted[0],
        fields.reason[0],
        fields.stored_version[0],
    )


def decode_documents(response: bytes) -> tuple[list[StoredDocument], list[Any]]:
    """Decode a search response of whole documents; return them and the last one's sort values, for the next page."""
    hits = _documents(response).hits.hits
    documents = [StoredDocument(hit.id, hit.version, hit.seq_no, bytes(hit.source)) for hit in hits]
    return documents, hits[-1].sort if hits else []
