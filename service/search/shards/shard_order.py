"""The page of one company in an index of several shards: from the shard of its cursor, then from those that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from mappings.stored_document import feed_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from service.request_context import RequestContext
    from service.search.query import Body, Selection

Rows = TypeVar("Rows", bound="Sized")


async def rows_in_order(
    call: RequestContext, selection: Selection, body: Body, after: str | None, read: Callable[[bytes, int], Rows]
) -> list[Rows]:
    """Return the rows of each search that a page takes, in the order of the feed keys, after the identifier `after`.

    `read` gets a response and the size of its search. Usually one shard is asked: the next one only if the rows of the
    page do not suffice.
    """
    size: int = body["size"]  # type: ignore[assignment]
    company, served = selection.scope.single_company, call.served_shards(selection.resource)
    if company is None or served is None or not served.spans_shards(company):
        return [read(await call.search(selection.resource, body), size)]
    found: list[Rows] = []
    key: str | None = feed_key(company, after or "")
    while key is not None and key < f"{company};" and size:
        rows = read(await call.search(selection.resource, body | {"size": size}, after=key), size)
        if call.served_shards(selection.resource) != served:
            return await rows_in_order(call, selection, body, after, read)
        found.append(rows)
        size -= len(rows)
        key = served.end(key)
    return found
