"""All documents of a small index, kept in memory: read once, and then only those that were written since.

Every write takes the next sequence number of its shard, so the last document and the number of documents say whether
anything has changed, and documents after the last one say what. That needs an index of one shard: one of several is
read as a whole every time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from service.errors import EngineUnavailable
from service.search.search_response import parse_hits, shard_count, total_hits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from service.search.engine import SearchEngine
    from service.search.query import Body

Document = TypeVar("Document")

_PAGE_SIZE = 1_000
# Searches of indices of several shards need a query, to which they add which copies are seen.
_MATCH_ALL: Body = {"query": {"match_all": {}}}


@dataclass(frozen=True)
class IndexVersion:
    """The number of documents and the one written last: changes with every write and deletion.

    Includes index, id and primary term, because another index counts sequence numbers from 0 again.
    """

    count: int = 0
    sequence: int = -1
    document: tuple[str, str, int] = ("", "", 0)  # index, id, primary term

    @classmethod
    def of(cls, count: int, last: Mapping[str, Any] | None) -> IndexVersion:
        """Return the version of `count` documents, of which `last` is the hit that was written last."""
        return cls() if last is None else cls(count, last["_seq_no"], _identity(last))

    def is_of(self, hit: Mapping[str, Any]) -> bool:
        """Whether a hit is the last document of this version."""
        return (hit["_seq_no"], _identity(hit)) == (self.sequence, self.document)


@dataclass(frozen=True)
class DocumentSet(Generic[Document]):
    """The decoded documents by id, and their version; the version is None if it cannot be known."""

    by_id: Mapping[str, Document] = field(default_factory=dict)
    version: IndexVersion | None = IndexVersion()


class DocumentSetReader(Generic[Document]):
    """Reads the documents of one index."""

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
            raise EngineUnavailable(f"A response for {self._index} lacks members: {error!r}.") from error

    async def _read(self, known: DocumentSet[Document] | None) -> DocumentSet[Document]:
        if known is None or known.version is None:
            return await self._read_all(self._by_sequence)
        if await self.read_version() == known.version:
            return known
        newer = await self._read_newer(known, known.version) if known.by_id else None
        return newer or await self._read_all(self._by_sequence)

    async def read_version(self) -> IndexVersion | None:
        """Return the present version, None for an index of several shards; raise ApiError."""
        sort = [{"_seq_no": "desc"}]
        response = await self._search({"size": 1, "sort": sort, "track_total_hits": True, "_source": False})
        if shard_count(response) > 1:
            return None
        return IndexVersion.of(total_hits(response), next(iter(parse_hits(response)), None))

    async def _read_newer(self, known: DocumentSet[Document], version: IndexVersion) -> DocumentSet[Document] | None:
        """Return the set with what was written since; None if more has changed, as by a deletion or a new index."""
        response = await self._page(self._by_sequence, [version.sequence, ""])
        hits = parse_hits(response)
        if not hits or not version.is_of(hits[0]) or len(hits) == _PAGE_SIZE:
            return None
        documents = {**known.by_id, **self._decoded(hits[1:])}
        # Also counts what was deleted since.
        has_all = len(documents) == total_hits(response)
        return DocumentSet(documents, IndexVersion.of(len(documents), hits[-1])) if has_all else None

    async def _read_all(self, sort: list[str]) -> DocumentSet[Document]:
        """Read by sequence number, so that a document that is written meanwhile appears again on a later page.

        The version is that of these hits, because another shard copy may lag a refresh behind. If pages of different
        copies lack a document for that reason, or one was deleted meanwhile, read by identifier.
        """
        documents: dict[str, Document] = {}
        last: dict[str, Any] | None = None
        while True:
            response = await self._page(sort, None if last is None else last["sort"])
            hits = parse_hits(response)
            documents |= self._decoded(hits)
            last = hits[-1] if hits else last
            if len(hits) < _PAGE_SIZE or (sort == self._by_sequence and shard_count(response) > 1):
                break
        if sort == self._by_identifier:
            return DocumentSet(documents, None)
        if shard_count(response) > 1 or len(documents) != total_hits(response):
            return await self._read_all(self._by_identifier)
        return DocumentSet(documents, IndexVersion.of(len(documents), last))

    def _decoded(self, hits: Iterable[Mapping[str, Any]]) -> dict[str, Document]:
        return {hit["_id"]: self._decode(hit) for hit in hits}

    async def _page(self, sort: list[str], after: list[Any] | None) -> bytes:
        body: Body = {"size": _PAGE_SIZE, "sort": sort, "track_total_hits": True, **self._options}
        return await self._search(body | ({"search_after": after} if after else {}))

    async def _search(self, body: Body) -> bytes:
        return await self._engine.search_unshared(self._index, {**body, **_MATCH_ALL, "seq_no_primary_term": True})


def _identity(hit: Mapping[str, Any]) -> tuple[str, str, int]:
    return hit["_index"], hit["_id"], hit["_primary_term"]
