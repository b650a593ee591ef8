"""The two ways through a collection: behind the last identifier, and by page number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from mappings.index import RESULT_WINDOW
from service.answer import hits, records, total
from service.errors import InvalidRequest
from service.projection import brief_records
from service.query import numbered_body, page_body, walk_body
from service.responses import array, links

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.answer import Encoded
    from service.operation import Call
    from service.projection import Variant
    from service.query import Selection

_WHOLE_AT_ONCE = 1_000


@dataclass(frozen=True)
class WalkPage:
    """One page of a walk: encoded records, whether it is the last, and the cursor to the next."""

    records: Sequence[Encoded]
    final: bool
    last: str | None


async def walk_page(call: Call, selection: Selection, variant: Variant, size: int) -> WalkPage:
    """Return the page behind `last_platform_listing_id`."""
    brief = call.parameters["timestamps_only"]
    after = call.parameters["last_platform_listing_id"]
    answer = await call.search(selection.resource, walk_body(selection, size, after, brief=brief))
    if brief:
        found = hits(answer)
        last = found[:size][-1]["fields"]["id"][0] if found else None
        encoded = brief_records(selection.resource, found[:size], underscored=variant.underscored)
        return WalkPage(encoded, len(found) <= size, last)
    stored = records(answer)
    last = orjson.loads(stored[:size][-1])[selection.resource.identifier] if stored else None
    return WalkPage(variant.encode(stored[:size]), len(stored) <= size, last)


@dataclass(frozen=True)
class NumberedPage:
    """One page by number, and how many there are."""

    records: Sequence[Encoded]
    number: int
    total_pages: int
    total: int

    def enclosed(self, name: str) -> bytes:
        """Return the body that holds the page's records under `name`, beside the page numbers."""
        head = f'{{"page_number":{self.number},"total_pages":{self.total_pages},"{name}":'.encode()
        return array(self.records, head, b"}")

    def headers(self, call: Call) -> dict[str, str]:
        """Return the paging headers and links."""
        relations = {"first": 1, "last": self.total_pages}
        if self.number > 1:
            relations["prev"] = min(self.number - 1, self.total_pages)
        if self.number < self.total_pages:
            relations["next"] = self.number + 1
        return {
            "X-Page-Number": str(self.number),
            "X-Total-Pages": str(self.total_pages),
            "X-Total-Count": str(self.total),
            **links(call.url, {relation: {"page_number": number} for relation, number in relations.items()}),
        }


async def numbered_page(call: Call, selection: Selection, variant: Variant, size: int) -> NumberedPage:
    """Return the page `page_number`; refuse one beyond the result window."""
    number = call.parameters["page_number"] or 1
    if number * size > RESULT_WINDOW:
        raise InvalidRequest.of(
            "page_number", f"pages reach {RESULT_WINDOW:,} records; the last is {RESULT_WINDOW // size}."
        )
    brief = call.parameters.get("timestamps_only", False)
    answer = await call.search(selection.resource, numbered_body(selection, number, size, brief=brief))
    count = total(answer)
    return NumberedPage(_encoded(answer, selection, variant, brief=brief), number, max(1, -(-count // size)), count)


def _encoded(answer: bytes, selection: Selection, variant: Variant, *, brief: bool) -> Sequence[Encoded]:
    if brief:
        return brief_records(selection.resource, hits(answer), underscored=variant.underscored)
    return variant.encode(records(answer))


async def whole(call: Call, selection: Selection, variant: Variant) -> list[Encoded]:
    """Return every record of a small collection, read in steps so that none is cut off."""
    found: list[Encoded] = []
    after: str | None = None
    while True:
        stored = records(await call.search(selection.resource, walk_body(selection, _WHOLE_AT_ONCE, after)))
        found.extend(variant.encode(stored[:_WHOLE_AT_ONCE]))
        if len(stored) <= _WHOLE_AT_ONCE:
            return found
        after = orjson.loads(stored[_WHOLE_AT_ONCE - 1])[selection.resource.identifier]


async def one(call: Call, selection: Selection, variant: Variant) -> Encoded | None:
    """Return the only record of a selection, or None."""
    found = records(await call.search(selection.resource, page_body(selection, 1)))
    return variant.encode(found)[0] if found else None
