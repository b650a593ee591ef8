"""Where the records of an index of several shards are: which shards a search asks, and which copies it sees.

A search that is routed by the ranges of a generation goes through an alias that this generation has only while it is
live. After a swap the search fails, the ranges are read again, and it is repeated: it never asks the wrong shard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
import orjson

from cluster.control_index import Mark
from mappings.indices import mapped_names, served_alias
from mappings.resource import Resource
from mappings.shards import LEFT_QUERY, ShardRanges, hidden_query, read_ranges
from mappings.stored_document import RECORD_DELIMITER, RECORD_KEY, feed_key
from service.errors import EngineUnavailable, RebuildDue
from service.http.responses import JsonBytes
from service.scope import CompanyDirectory, Scope
from service.search.cached_value import CachedValue
from service.search.query import Body, Clause, Selection, matches, used_fields
from service.search.responses import logged_text, malformed_response, shard_count, status_failure
from service.telemetry.observation import UNMARKED_RESPONSES

# Scopes of more companies ask all shards: to find theirs would take longer.
MAX_COMPANIES = 64


class NoLongerServed(EngineUnavailable):
    """The generation that a search was routed for has been replaced."""


class OneShard(NamedTuple):
    """The shard of a generation that has a feed key."""

    served: ServedShards
    key: str


class ShardScope(NamedTuple):
    """The companies that a search may read, None for all, and the sequence of the mark that it sees records at.

    `sequence` is None for the latest state. With `only`, the search asks that shard, and fails with NoLongerServed
    after a swap, instead of being repeated.
    """

    companies: Collection[str] | None = None
    sequence: int | None = None
    only: OneShard | None = None


EVERYTHING = ShardScope()


@dataclass(frozen=True)
class ServedShards:
    """The live generation behind an alias, if it has several shards.

    `target` is the alias to search through. Without one that is removed by a swap, searches are not routed. `index` is
    the name of the generation.
    """

    index: str
    target: str
    ranges: ShardRanges
    is_routed: bool

    def routing(self, shard_scope: ShardScope) -> str:
        """Return the parameter of a request that chooses the shards, after `&`; empty for all."""
        shards = self._shards(shard_scope) if self.is_routed else None
        return "" if shards is None else f"&routing={','.join(self.ranges.routings[shard] for shard in shards)}"

    def _shards(self, shard_scope: ShardScope) -> Collection[int] | None:
        if shard_scope.only is not None:
            return [self.ranges.shard(shard_scope.only.key)]
        if not shard_scope.companies or len(shard_scope.companies) > MAX_COMPANIES:
            return None
        shards = self.ranges.companies_shards(shard_scope.companies)
        return None if len(shards) == self.ranges.count else shards

    def record_routings(self, identifier: str, companies: Collection[str] | None) -> Collection[str]:
        """Return the routing values of the shards that can have a record of some companies, all without any."""
        if not companies or len(companies) > MAX_COMPANIES:
            return self.ranges.routings
        return {self.ranges.routings[self.ranges.shard(feed_key(company, identifier))] for company in companies}

    def spans_shards(self, company: str) -> bool:
        """Whether the records of a company are in several shards that can be asked one by one."""
        return self.is_routed and len(self.ranges.company_shards(company)) > 1

    def visible(self, body: Mapping[str, Any], shard_scope: ShardScope) -> Body:
        """Return a body that finds of each record the copy that is served at the mark."""
        return {**body, "query": visible_query(body["query"], shard_scope)}

    def shows(self, fields: Mapping[str, Any], shard_scope: ShardScope) -> bool:
        """Return whether a document with these search fields is the copy that `visible` finds."""
        return not matches(_unseen(shard_scope), fields)

    def end(self, key: str) -> str | None:
        """Return the first feed key of the shard after the one that has a key, None after the last."""
        return next((cut for cut in self.ranges.cuts if cut > key), None)


def visible_query(query: Clause, shard_scope: ShardScope) -> Clause:
    """Return a query for the copies that are served; only for an index of several shards."""
    return {"bool": {"filter": [query], "must_not": [_unseen(shard_scope)]}}


def _unseen(shard_scope: ShardScope) -> Mapping[str, Any]:
    return LEFT_QUERY if shard_scope.sequence is None else hidden_query(shard_scope.sequence)


def served_shards(alias: str, indices: Mapping[str, Any]) -> ServedShards | None:
    """Return the shards behind an alias, by its index as Elasticsearch describes it; None for one shard, or no index.

    Raises ValueError if the ranges are not valid.
    """
    if len(indices) != 1:
        return None
    [(index, facts)] = indices.items()
    ranges = read_ranges(facts["mappings"].get("_meta", {}))
    if not ranges.is_routed:
        return None
    target = served_alias(index)
    is_routed = target in facts["aliases"]
    return ServedShards(index, target if is_routed else alias, ranges, is_routed)


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


def read_places(
    identifiers: Iterable[str], served: ServedShards | None, shard_scope: ShardScope
) -> list[dict[str, str]]:
    """Return where to read documents: their identifiers, in an index of several shards with each shard's routing."""
    if served is None:
        return [{"_id": name} for name in identifiers]
    return [
        {"_id": name, "routing": routing}
        for name in identifiers
        for routing in served.record_routings(name, shard_scope.companies)
    ]


def read_documents(response: bytes | bytearray, asked: int) -> Documents:
    """Return the documents that exist, of a read of `asked` documents, at least one.

    Such a read costs less than half of a search, but checks nothing: the documents have not passed any filter yet.
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
    if kind == _MISSING_INDEX:
        return gone(error)
    failure = status_failure(_STATUSES.get(kind, 503), error, None)
    return SeveralShards(getattr(failure, "reason", "")) if kind == _MISSING_ROUTING else failure


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


GetJson = Callable[[str], Awaitable[tuple[int, Any]]]
SendSearch = Callable[[str, str, bytes], Awaitable[bytes]]
SendRead = Callable[[str, bytes], Awaitable[bytes]]

Result = TypeVar("Result")

# More swaps during one page are not plausible. In 1,000 swaps without a pause, pages of two searches needed over 3.
_MAX_ATTEMPTS = 10


class _MappedFields(NamedTuple):
    """The names of the search fields in the mapping of an index."""

    generation: str
    fields: frozenset[str]


class _UnknownMapping(NoLongerServed):
    """The documents are of an index whose mapping was not known before."""


class ShardTable:
    """The shards of each live index that has several, by alias."""

    def __init__(self, get_json: GetJson) -> None:
        self._get_json = get_json
        self._served: dict[str, ServedShards] = {}
        self._mapped: dict[str, _MappedFields] = {}

    def get(self, alias: str) -> ServedShards | None:
        """Return the shards of the live index, None if it has one, or if that is not known yet."""
        return self._served.get(alias)

    def update(self, alias: str, indices: Mapping[str, Any]) -> None:
        """Take over what Elasticsearch says about the index behind an alias; raise ValueError if it is not valid."""
        self._mapped.pop(alias, None)
        if len(indices) == 1:
            [(index, facts)] = indices.items()
            self._mapped[alias] = _MappedFields(index, frozenset(facts["mappings"].get("properties", ())))
        served = served_shards(alias, indices)
        if served is None:
            self._served.pop(alias, None)
        elif served != self._served.get(alias):
            self._served[alias] = served

    async def search(self, alias: str, body: Mapping[str, Any], shard_scope: ShardScope, send: SendSearch) -> bytes:
        """Return the response of a search that `send` sends: to a path, with options and a body."""

        async def attempt(served: ServedShards | None) -> bytes:
            if served is None:
                return await self.checked(alias, await send(f"/{alias}", "", orjson.dumps(body)))
            return await send(
                f"/{served.target}", served.routing(shard_scope), orjson.dumps(served.visible(body, shard_scope))
            )

        return await (attempt(shard_scope.only.served) if shard_scope.only else self.repeat(alias, attempt))

    def read(
        self, alias: str, identifiers: Sequence[str], selection: Selection, shard_scope: ShardScope, send: SendRead
    ) -> Awaitable[list[Document]]:
        """Return the documents with some identifiers that are in a selection; `send` reads all copies."""

        async def attempt(served: ServedShards | None) -> list[Document]:
            mapped, places = self._mapped.get(alias), read_places(identifiers, served, shard_scope)
            generation, found = await self._read(alias, served, places, send)
            _require_mapped(mapped, generation, selection)
            shown = found if served is None else [hit for hit in found if served.shows(hit.fields, shard_scope)]
            return [hit for hit in shown if selection.accepts(hit.fields)]

        return self.repeat(alias, attempt)

    async def _read(
        self, alias: str, served: ServedShards | None, places: list[dict[str, str]], send: SendRead
    ) -> Documents:
        """Return all documents in some places; raise NoLongerServed if they are not of the generation of the shards."""
        response = await send(f"/{alias if served is None else served.target}", orjson.dumps({"docs": places}))
        try:
            documents = read_documents(response, len(places))
        except SeveralShards:
            await self._read_again(alias, served)
            raise
        if served is not None and served.index != documents.generation:
            raise NoLongerServed(f"{served.index} has been replaced by {documents.generation}.")
        return documents

    async def repeat(self, alias: str, attempt: Callable[[ServedShards | None], Awaitable[Result]]) -> Result:
        """Return what `attempt` returns for the present shards; again if it raises NoLongerServed."""
        for _ in range(_MAX_ATTEMPTS - 1):
            served = self._served.get(alias)
            try:
                return await attempt(served)
            except NoLongerServed as error:
                if served is None and self.get(alias) is None and not isinstance(error, _UnknownMapping):
                    raise
                await self._read_again(alias, served)
        return await attempt(self.get(alias))

    async def checked(self, alias: str, response: bytes) -> bytes:
        """Return the response of an index that was taken to have one shard; raise NoLongerServed if it has several."""
        if shard_count(response) > 1:
            await self._read_again(alias, None)
            if self.get(alias) is not None:
                raise NoLongerServed("The index has been replaced by one of several shards.")
        return response

    async def _read_again(self, alias: str, outdated: ServedShards | None) -> None:
        if self.get(alias) is not outdated:
            return  # another request has read them
        status, indices = await self._get_json(f"/{alias}?flat_settings=true")
        self.update(alias, indices if status == 200 else {})


@cache
def _declared_names(resource: Resource) -> frozenset[str]:
    return frozenset(mapped_names(resource))


def _require_mapped(known: _MappedFields | None, generation: str, selection: Selection) -> None:
    """Raise RebuildDue if the index of some documents lacks search fields, whose absence would then say nothing.

    `known` are the fields that were known before the documents were read.
    """
    if known is None or known.generation != generation:
        raise _UnknownMapping(f"The mapping of {generation} is not known.")
    if known.fields >= _declared_names(selection.resource):
        return
    if lacking := {*used_fields(selection.conditions)} - known.fields:
        raise RebuildDue(selection.resource.alias, f"{generation} lacks the fields {', '.join(sorted(lacking))}.")


def gone(response: bytes | bytearray) -> NoLongerServed:
    """Return the error for a search of an index that does not exist."""
    return NoLongerServed(f"Elasticsearch responded 404: {logged_text(response)}")


class LiveIndex(NamedTuple):
    """The live index of a resource, by its alias, and the mark of what was published to it."""

    alias: str
    mark: CachedValue[Mark | None]


class _Services(Protocol):
    @property
    def indices(self) -> Mapping[Resource, LiveIndex]: ...


class _Call(Protocol):
    @property
    def scope(self) -> Scope: ...
    @property
    def directory(self) -> CompanyDirectory: ...
    @property
    def services(self) -> _Services: ...
    def served_shards(self, resource: Resource) -> ServedShards | None: ...


async def shards_of_request(call: _Call, resource: Resource, sequence: int | None = None) -> ShardScope:
    """Return what a search may reach: the scope, at the given mark or one that is not outdated; raise ApiError.

    Within one company no record is in two shards, so the latest state is as good.
    """
    companies = call.scope.companies
    if sequence is None and call.scope.single_company is None and call.served_shards(resource) is not None:
        mark = await call.services.indices[resource].mark.get_renewed()
        sequence = None if mark is None else mark.sequence
    return ShardScope(companies, sequence)


async def shards_of_records(call: _Call, resource: Resource) -> ShardScope:
    """Return what a read by identifier may reach: without a scope, the companies that are known, unless too many."""
    shard_scope = await shards_of_request(call, resource)
    if shard_scope.companies is not None or call.served_shards(resource) is None:
        return shard_scope
    # By key and by numeric id.
    is_few = len(call.directory.keys) <= 2 * MAX_COMPANIES
    return shard_scope._replace(companies={*call.directory.keys.values()}) if is_few else shard_scope
