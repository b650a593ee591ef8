"""Searches that read search fields only: document positions, counts and moves."""

from collections.abc import Collection
from typing import NamedTuple, TypeVar

from mappings.digest import bucket
from mappings.resource import Resource
from mappings.stored_document import split_document_id
from service.errors import InvalidRequest
from service.request_context import RequestContext
from service.reso.protocol.option_names import FILTER
from service.search.query import Body, Clause, scope_clauses, term, terms
from service.search.responses import parse_hits, total_hits

DocValuesT = TypeVar("DocValuesT", bound=NamedTuple)

_MAX_CANDIDATES = 10_000


class DocumentPosition(NamedTuple):
    """The `_id` of a document and its sequence."""

    id: str
    sequence: int


async def read_doc_values(
    call: RequestContext, resource: Resource, body: Body, row_type: type[DocValuesT], sequence: int | None = None
) -> list[DocValuesT]:
    """Search, and return doc values of the hits without loading the records.

    `row_type` is a named tuple of search fields; `sequence` is as for `RequestContext.search`.
    """
    fields = {"stored_fields": "_none_", "docvalue_fields": list(row_type._fields)}
    response = await call.search(resource, body | fields, sequence)
    return [row_type._make(hit["fields"][name][0] for name in row_type._fields) for hit in parse_hits(response)]


async def count_documents(call: RequestContext, resource: Resource, query: Clause, sequence: int | None = None) -> int:
    """Return the number of matching documents; `sequence` is as for `RequestContext.search`."""
    return total_hits(await call.search(resource, {"size": 0, "track_total_hits": True, "query": query}, sequence))


async def find_moves(call: RequestContext, resource: Resource, keys: Collection[str]) -> dict[str, list[str]]:
    """Return by key the ids of the move documents of records that have left a company of the scope.

    Their ids contain a company that the filter does not name, so they are searched by the buckets of the keys, each of
    which holds few tombstones.
    """
    candidates = [
        *scope_clauses(call.scope),
        term("deleted", value=True),
        terms("bucket", sorted(set(map(bucket, keys)))),
    ]
    body: Body = {
        "size": _MAX_CANDIDATES,
        "track_total_hits": False,
        "query": {"bool": {"filter": candidates}},
        "sort": ["sequence"],
    }
    documents = await read_doc_values(call, resource, body, DocumentPosition)
    if len(documents) == _MAX_CANDIDATES:
        raise InvalidRequest.of(FILTER, "compares too many keys: send fewer at a time.")
    moves: dict[str, list[str]] = {}
    for document in documents:
        company, key = split_document_id(document.id)
        if company and key in keys:
            moves.setdefault(key, []).append(document.id)
    return moves
