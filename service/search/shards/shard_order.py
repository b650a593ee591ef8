"""The page of one company in an index of several shards: from the shard of its cursor, then from those that follow."""

from collections.abc import Callable, Sized
from typing import TypeVar

from mappings.stored_document import feed_key
from service.request_context import RequestContext
from service.search.query import Body, Selection
from service.search.shards.served_shards import OneShard, ServedShards

Rows = TypeVar("Rows", bound="Sized")


async def rows_in_order(
    call: RequestContext, selection: Selection, body: Body, after: str | None, read: Callable[[bytes, int], Rows]
) -> list[Rows]:
    """Return the rows of each search that a page takes, in the order of the feed keys, after the identifier `after`.

    `read` gets a response and the size of its search. Usually one shard is asked: the next one only if the rows of the
    page do not suffice. All are of one generation: after a swap the page starts again.
    """
    size: int = body["size"]  # type: ignore[assignment]

    async def attempt(served: ServedShards | None) -> list[Rows]:
        company = selection.scope.single_company
        if company is None or served is None or not served.spans_shards(company):
            return [read(await call.search(selection.resource, body), size)]
        found, missing = list[Rows](), size
        key: str | None = feed_key(company, after or "")
        while key is not None and key < f"{company};" and missing:
            response = await call.search(selection.resource, body | {"size": missing}, only=OneShard(served, key))
            found.append(read(response, missing))
            missing -= len(found[-1])
            key = served.end(key)
        return found

    return await call.repeat_after_swap(selection.resource, attempt)
