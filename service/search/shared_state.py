"""What every request needs of Elasticsearch: companies and marks, and small indices kept in memory as a whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import orjson

from cluster.control_index import Mark, mark_id
from cluster.index_state import write_block
from service.errors import ApiError, EngineUnavailable
from service.scope import CompanyDirectory, ListedCompany
from service.search.engine import SearchEngine
from service.search.query import Body
from service.search.responses import parse_hits, shard_count, sum_of, total_hits

Document = TypeVar("Document")

_PAGE_SIZE = 1_000
# So many of the documents written last are read again with what is newer: the first of them must not have changed.
_REREAD = 10
_SEQUENCES = "sequences"
_SUM_OF_SEQUENCES: Body = {"aggs": {_SEQUENCES: {"sum": {"field": "_seq_no"}}}}
# Searches of indices of several shards need a query, to which they add which copies are seen.
_MATCH_ALL: Body = {"query": {"match_all": {}}}


class WrittenDocument(NamedTuple):
    """One state of a document. Another index counts sequence numbers from 0 again, so they alone are not enough."""

    sequence: int
    index_name: str
    identifier: str
    term: int

    @classmethod
    def of(cls, hit: Mapping[str, Any]) -> WrittenDocument:
        return cls(hit["_seq_no"], hit["_index"], hit["_id"], hit["_primary_term"])


class IndexVersion(NamedTuple):
    """Changes with every write and deletion, in whichever order writes become visible."""

    total: int
    sum_of_sequences: int
    last: WrittenDocument | None  # None without documents


@dataclass(frozen=True)
class DocumentSet(Generic[Document]):
    """The decoded documents by id, and what was written last, in order; `recent` is None if that cannot be known."""

    by_id: Mapping[str, Document]
    sequences: Mapping[str, int]  # by id
    recent: Sequence[WrittenDocument] | None

    @cached_property
    def version(self) -> IndexVersion | None:
        if self.recent is None:
            return None
        return IndexVersion(len(self.by_id), sum(self.sequences.values()), self.recent[-1] if self.recent else None)


class DocumentSetReader(Generic[Document]):
    """Reads the documents of one index.

    Every write takes the next sequence number of its shard. So the last document, the number of documents and the sum
    of their sequence numbers say whether anything has changed, and the documents after the last one say what. The sum
    finds a write that becomes visible after one with a higher number. An index of several shards is read as a whole
    every time.
    """

    def __init__(
        self,
        engine: SearchEngine,
        index: str,
        decode: Callable[[Mapping[str, Any]], Document],
        identifier: str,
        **options: object,
    ) -> None:
        """`decode` gets a hit. `identifier` is a field that sorts documents; `options` are members of the search."""
        self._engine = engine
        self._index = index
        self._decode = decode
        self._by_sequence, self._by_identifier = ["_seq_no", identifier], [identifier]
        self._options = options

    async def read(self, known: DocumentSet[Document] | None) -> DocumentSet[Document]:
        """Return the documents as they are now, `known` itself if nothing has changed; raise ApiError."""
        try:
            return await self._read(known)
        except (LookupError, TypeError) as error:
            raise EngineUnavailable(f"A response for {self._index} lacks fields: {error!r}.") from error

    async def _read(self, known: DocumentSet[Document] | None) -> DocumentSet[Document]:
        if known is None or known.recent is None:
            return await self._read_all(self._by_sequence)
        if await self.read_version() == known.version:
            return known
        newer = await self._read_newer(known, known.recent[0]) if known.recent else None
        return newer or await self._read_all(self._by_sequence)

    async def read_version(self) -> IndexVersion | None:
        """Return the present version, None for an index of several shards; raise ApiError."""
        sort = [{"_seq_no": "desc"}]
        response = await self._search({"size": 1, "sort": sort, "track_total_hits": True, "_source": False})
        if shard_count(response) > 1:
            return None
        last = next(map(WrittenDocument.of, parse_hits(response)), None)
        return IndexVersion(total_hits(response), sum_of(_SEQUENCES, response), last)

    async def _read_newer(self, known: DocumentSet[Document], start: WrittenDocument) -> DocumentSet[Document] | None:
        """Return the set with what was written since; None if more has changed, as by a deletion or a new index."""
        response = await self._page(self._by_sequence, [start.sequence, ""])
        hits = parse_hits(response)
        if not hits or WrittenDocument.of(hits[0]) != start or len(hits) == _PAGE_SIZE:
            return None
        documents = {**known.by_id, **self._decoded(hits[1:])}
        return _document_set(documents, {**known.sequences, **_sequences(hits[1:])}, hits, response)

    async def _read_all(self, sort: list[str]) -> DocumentSet[Document]:
        """Read by sequence number, so that a document that is written meanwhile appears again on a later page.

        What was written last is taken from these hits, because another shard copy may lag a refresh behind. If pages of
        different copies lack a document for that reason, or one was deleted meanwhile, read by identifier.
        """
        documents: dict[str, Document] = {}
        sequences: dict[str, int] = {}
        recent: list[dict[str, Any]] = []
        while True:
            response = await self._page(sort, recent[-1]["sort"] if recent else None)
            hits = parse_hits(response)
            documents |= self._decoded(hits)
            has_version = sort == self._by_sequence and shard_count(response) == 1
            sequences |= _sequences(hits) if has_version else {}
            recent = [*recent, *hits][-_REREAD:]
            if len(hits) < _PAGE_SIZE or (sort == self._by_sequence and not has_version):
                break
        if sort == self._by_identifier:
            return DocumentSet(documents, sequences, None)
        read = _document_set(documents, sequences, recent, response) if has_version else None
        return read or await self._read_all(self._by_identifier)

    def _decoded(self, hits: Iterable[Mapping[str, Any]]) -> dict[str, Document]:
        return {hit["_id"]: self._decode(hit) for hit in hits}

    async def _page(self, sort: list[str], after: list[Any] | None) -> bytes:
        body: Body = {"size": _PAGE_SIZE, "sort": sort, "track_total_hits": True, **self._options}
        return await self._search(body | ({"search_after": after} if after else {}))

    async def _search(self, body: Body) -> bytes:
        whole = {**body, **_MATCH_ALL, **_SUM_OF_SEQUENCES, "seq_no_primary_term": True}
        return await self._engine.search_unshared(self._index, whole)


def _sequences(hits: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    return {hit["_id"]: hit["_seq_no"] for hit in hits}


def _document_set(
    documents: Mapping[str, Document],
    sequences: Mapping[str, int],
    hits: Sequence[Mapping[str, Any]],
    response: bytes,
) -> DocumentSet[Document] | None:
    """Return documents whose last writes are the last of some hits, None if the index has others by this response."""
    read = DocumentSet(documents, sequences, [WrittenDocument.of(hit) for hit in hits[-_REREAD:]])
    is_whole = read.version is not None and read.version[:2] == (total_hits(response), sum_of(_SEQUENCES, response))
    return read if is_whole else None


_READ = ("id", "numeric_id", "parent_company_id", "deleted")


class CompanyDirectoryReader:
    """Reads the directory of all companies, and builds another one only if companies have changed."""

    def __init__(self, engine: SearchEngine, alias: str) -> None:
        self._reader = DocumentSetReader(engine, alias, _listed_company, "id", _source=_READ)
        self._companies: DocumentSet[ListedCompany | None] | None = None
        self._directory = CompanyDirectory()

    async def read(self) -> CompanyDirectory:
        """Return the directory, the same object if nothing has changed; raise ApiError."""
        companies = await self._reader.read(self._companies)
        if companies is not self._companies:
            self._directory = CompanyDirectory.of(filter(None, companies.by_id.values()))
            self._companies = companies
        return self._directory


def _listed_company(hit: Mapping[str, Any]) -> ListedCompany | None:
    """Return the company of a hit, None for a deleted one."""
    document = hit["_source"]
    if document.get("deleted"):
        return None
    return ListedCompany(document["id"], document.get("numeric_id"), document.get("parent_company_id"))


async def read_mark(engine: SearchEngine, control_index: str, alias: str) -> Mark | None:
    """Return the mark of a resource's alias, None before its first build."""
    document = await engine.get_document(control_index, mark_id(alias))
    return None if document is None else msgspec.convert(document, Mark)


# Written, or rejected because the same or a later version is there.
_SUCCESS_STATUSES = {200, 201, 409}
_log = logging.getLogger("service")


def bulk_lines(actions: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> bytes:
    """Return the body of a bulk request: for each document its action's options and itself."""
    lines = (line for options, document in actions for line in ({"index": options}, document))
    return b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


async def bulk_problem(engine: SearchEngine, alias: str, body: bytes, creator: str, seconds: float) -> str:
    """Send a bulk request within `seconds`; return the problem, or an empty text if everything was written.

    `creator` is the command that creates the alias and its index.
    """
    try:
        async with asyncio.timeout(seconds):
            status, response = await engine.bulk(alias, body)
        items = [{"status": status}] if response is None else [item["index"] for item in response["items"]]
        failed = [item for item in items if response is None or item["status"] not in _SUCCESS_STATUSES]
        return _describe(failed, alias, creator) if failed else ""
    except (ApiError, TimeoutError, LookupError, TypeError):
        return "Elasticsearch did not accept the write"


def _describe(failed: list[dict[str, Any]], alias: str, creator: str) -> str:
    if reason := next(filter(None, (write_block(item.get("error")) for item in failed)), ""):
        return f"{alias} is blocked: {reason}. Free disk space or remove the block"
    statuses = {item["status"] for item in failed}
    if 404 in statuses:
        return f"there is no alias {alias}; {creator} creates it and its index"
    if statuses & {401, 403}:
        return f"the service's user lacks the privilege `index` on {alias}"
    return f"Elasticsearch returned {min(statuses)}"


class WriteProblem:
    """The problem of periodic writes, logged when it begins and when it ends."""

    def __init__(self, begun: str, ended: str) -> None:
        """Log `begun`, a format for the problem, or `ended`."""
        self._begun, self._ended = begun, ended
        self._problem = ""

    def changes_to(self, problem: str) -> None:
        """Log a problem that is not the last one, or that there is none any more (an empty text)."""
        if problem and problem != self._problem:
            _log.warning(self._begun, problem)
        elif self._problem and not problem:
            _log.warning(self._ended)
        self._problem = problem
