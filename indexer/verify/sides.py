"""The two sides of a verification, in the same form: what a source would store, and what an index stores.

A side is read once: its entries are kept in a temporary file for later passes. Parsing a source costs some 35 µs of CPU
time per line, and fetching documents more; reading an entry back about 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from tempfile import TemporaryFile, gettempdir
from typing import IO, TypeAlias

import msgspec

from indexer import scan
from indexer.changes.stamps import at_live_time, in_order_of_arrival
from indexer.clock import REPLACED_VERSION_GAP, UNDATED, first_future_version
from indexer.documents.builder import PendingDocument
from indexer.documents.companies import ALL_COMPANIES, Companies, Coverage
from indexer.documents.line_parser import ChunkReader, LineParser
from indexer.errors import report_folder_errors
from indexer.names import Names
from indexer.settings import IndexerContext, IndexerSettings
from indexer.source.lines import RejectedLine, Source
from mappings import Resource
from mappings.stored_document import RECORD_DELIMITER, TombstoneReason, coarse_bucket, exact_values, is_move


class RecordState(msgspec.Struct, gc=False, frozen=True, array_like=True):
    """One record on one side. `stored` is a 64-bit hash of the stored bytes, 0 if these are not compared.

    `version` is UNDATED if the time of `stated_version` cannot be right.
    """

    id: str
    version: int
    content: int
    deleted: bool
    stored: int
    stated_version: int


@dataclass(frozen=True)
class SourceSide:
    """The documents that a build would make of a source; `on_rejected` is called for invalid lines.

    `index` has the times of records whose lines have none.
    """

    source: Source
    resource: Resource
    companies: Companies
    settings: IndexerSettings
    index: IndexSide
    on_rejected: Callable[[RejectedLine], None]

    async def records(self) -> AsyncIterator[list[RecordState]]:
        with self.source.open(self.resource) as stream:
            parser = LineParser(self.resource, self.companies, self.settings)
            chunks = ChunkReader(parser, stream, self.settings)
            names = Names(self.index.context)
            while (read := await asyncio.to_thread(self._next, chunks)) is not None:
                drafts = await names.fill(read)
                known = await self.index.rows([draft.id for draft in drafts if draft.redated])
                yield await asyncio.to_thread(self._entries, drafts, known)

    def _next(self, chunks: ChunkReader) -> list[PendingDocument] | None:
        chunk = chunks.read()
        if chunk is None:
            return None
        for item in chunk.rejected:
            self.on_rejected(item)
        return chunk.drafts

    def _entries(self, drafts: list[PendingDocument], known: dict[str, scan.IndexRow]) -> list[RecordState]:
        return [self._entry(_at_stored_time(draft, known.get(draft.id))) for draft in drafts]

    def _entry(self, document: PendingDocument) -> RecordState:
        stored = _hash(document.record, exact_values(document.head), 0) if self.index.is_full else 0
        version, is_deleted = document.version, document.record is None
        return RecordState(document.id, version, document.content, is_deleted, stored, version)


def _at_stored_time(draft: PendingDocument, row: scan.IndexRow | None) -> PendingDocument:
    """Return a document whose time the source leaves open under that of the stored state, if it is that state."""
    if draft.line.period is None:
        return at_live_time(draft, row)
    return in_order_of_arrival(draft, row) if row is not None and draft.content == row.content else draft


@dataclass(frozen=True)
class IndexSide:
    """The documents of an index that belong to the covered companies."""

    context: IndexerContext
    index: str
    is_full: bool
    covered: Coverage = ALL_COMPANIES

    async def records(self) -> AsyncIterator[list[RecordState]]:
        """Yield the entries of the index, each record once unless it changes meanwhile."""
        if self.is_full:
            documents = scan.scan_documents(self.context, self.index, query=self.covered.query, order="feed_key")
            async with aclosing(documents):
                async for page in documents:
                    yield self._of_documents(page)
            return
        async with aclosing(scan.scan_rows(self.context, self.index, query=self.covered.query)) as rows:
            async for rows_of_page in rows:
                yield [_row_entry(row) for row in rows_of_page if _is_comparable(row)]

    async def look_up(self, identifiers: Sequence[str]) -> dict[str, RecordState]:
        if self.is_full:
            entries = self._of_documents(await scan.fetch_documents(self.context, self.index, identifiers))
        else:
            rows = await scan.look_up_rows(self.context, self.index, identifiers)
            entries = [_row_entry(row) for row in rows.values() if _is_comparable(row)]
        return {entry.id: entry for entry in entries}

    def _of_documents(self, documents: list[scan.StoredDocument]) -> list[RecordState]:
        first_future = first_future_version(self.context.settings.future_seconds)
        entries = (_document_entry(document, first_future) for document in documents)
        return [entry for entry in entries if entry is not None]

    async def rows(self, identifiers: Sequence[str]) -> dict[str, scan.IndexRow]:
        return await scan.look_up_rows(self.context, self.index, identifiers) if identifiers else {}

    async def live_ids(self, identifiers: Sequence[str]) -> list[str]:
        return [row.id for row in (await self.rows(identifiers)).values() if not row.deleted]


def _is_comparable(row: scan.IndexRow) -> bool:
    """Whether a row is a record or its deletion.

    The tombstone of a vanished record is neither: if the reference has the record, the index lacks it. Nor is a move.
    """
    return row.reason != TombstoneReason.VANISHED and not is_move(row.id)


def _row_entry(row: scan.IndexRow) -> RecordState:
    stated = row.stored_version if row.version == UNDATED else row.version
    return RecordState(row.id, row.version, row.content, row.deleted, 0, stated)


class _DocumentHeader(msgspec.Struct, gc=False):
    version: int
    content: int
    deleted: bool
    reason: str | None = None


_decode_header = msgspec.json.Decoder(_DocumentHeader).decode


def _document_entry(document: scan.StoredDocument, first_future: int) -> RecordState | None:
    """Return the entry of a stored document; the bytes between its delimiters must be the record as sent."""
    header = _decode_header(document.source)
    if header.reason == TombstoneReason.VANISHED or is_move(document.id):
        return None
    head, delimiter, rest = document.source.partition(RECORD_DELIMITER)
    record = rest.rpartition(RECORD_DELIMITER)[0] if delimiter else None
    stored, stated = _hash(record, exact_values(head), _drift(document.version, header.version)), header.version
    version = stated if stated < first_future else UNDATED
    return RecordState(document.id, version, header.content, header.deleted, stored, stated)


def _drift(stored_version: int, version: int) -> int:
    """Return by how much Elasticsearch's version differs, unless the indexer wrote it so."""
    drift = stored_version - version
    return drift if drift < REPLACED_VERSION_GAP else 0


def _hash(record: bytes | None, exact: bytes, drift: int) -> int:
    """Return a signed 64-bit hash of a record's bytes and its exact values.

    `drift` is the document's `_version` minus its `version` field, 0 unless another program wrote it.
    """
    digest = blake2b(b"%d:" % drift, digest_size=8)
    digest.update(record or b"")
    digest.update(exact)
    return int.from_bytes(digest.digest(), "big", signed=True)


# A side that can be compared. Of several entries of a record the highest version counts.
VerificationSide: TypeAlias = SourceSide | IndexSide

_ADVICE = "Set TMPDIR to a folder with free space: about 70 bytes for each record."
_LENGTH_BYTES = 4
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[RecordState]).decode


class RecordedSide:
    def __init__(self, side: VerificationSide, file: IO[bytes]) -> None:
        self._side = side
        self._file = file

    async def record(self) -> AsyncIterator[list[RecordState]]:
        """Yield all pages of the side and keep them; raise WorkFolderError if the file cannot be written."""
        async for page in self._side.records():
            await asyncio.to_thread(self._keep, page)
            yield page

    def _keep(self, page: list[RecordState]) -> None:
        data = _encode(page)
        with report_folder_errors(gettempdir(), _ADVICE):
            self._file.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)

    async def recorded(self, wanted: Collection[int]) -> AsyncIterator[list[RecordState]]:
        """Yield the kept entries in some coarse buckets of `mappings.stored_document`."""
        with report_folder_errors(gettempdir(), _ADVICE):
            self._file.seek(0)
        while (page := await asyncio.to_thread(self._next, wanted)) is not None:
            yield page

    def _next(self, wanted: Collection[int]) -> list[RecordState] | None:
        if not (length := self._file.read(_LENGTH_BYTES)):
            return None
        page = _decode(self._file.read(int.from_bytes(length, "big")))
        return [entry for entry in page if coarse_bucket(entry.id) in wanted]


@contextmanager
def recorded(side: VerificationSide) -> Iterator[RecordedSide]:
    """Open a side that is read once; raise WorkFolderError if there is no space for it."""
    with report_folder_errors(gettempdir(), _ADVICE):
        file = TemporaryFile()  # noqa: SIM115 - closed below
    with file:
        yield RecordedSide(side, file)
