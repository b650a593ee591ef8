"""The two ways through a collection: behind the last identifier, and by page number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mappings.index import RESULT_WINDOW
from service.answer import records, total
from service.brief import briefs, doc_values
from service.errors import InvalidRequest
from service.layers import Layer
from service.projection import identifier
from service.query import Selection, numbered_body, page_body, terms, walk_body
from service.ranking import DEEP, behind, start
from service.responses import array, links

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mappings.resource import Resource
    from service.answer import Encoded
    from service.elastic import Engine
    from service.operation import Call
    from service.projection import Variant

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
    body = walk_body(selection, size, call.parameters["last_platform_listing_id"], brief=brief)
    answer = await call.search(selection.resource, body)
    page = (_brief_page if brief else _page)(answer, variant, size)
    if not page.final:
        call.walked(selection.resource, body, walk_body(selection, size, page.last, brief=brief))
    return page


def _page(answer: bytes, variant: Variant, size: int) -> WalkPage:
    stored = records(answer, size + 1)
    last = identifier(variant.resource, stored[:size][-1]) if stored else None
    return WalkPage(variant.encode(stored[:size]), len(stored) <= size, last)


def _brief_page(answer: bytes, variant: Variant, size: int) -> WalkPage:
    found = doc_values(variant.resource, answer)
    encoded = briefs(variant.resource, found[:size], underscored=variant.underscored)
    return WalkPage(encoded, len(found) <= size, found[:size][-1].id[0] if found else None)


@dataclass(frozen=True)
class NumberedPage:
    """One page by number, and how many there are."""

    records: Sequence[Encoded]
    number: int
    total_pages: int
    total: int

    def enclosed(self, name: str) -> list[Encoded]:
        """Return the parts of the body that holds the page's records under `name`, beside the page numbers."""
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
    answer, count = await _found(call, selection, (number - 1) * size, size, brief=brief)
    return NumberedPage(_encoded(answer, variant, size, brief=brief), number, max(1, -(-count // size)), count)


async def _found(call: Call, selection: Selection, offset: int, size: int, *, brief: bool) -> tuple[bytes, int]:
    """Return the answer with the records from `offset` on, counted from 0, and how many there are in all."""
    if offset < DEEP:
        answer = await call.search(selection.resource, numbered_body(selection, offset, size, brief=brief))
        return answer, total(answer)
    place = await start(partial(call.search, selection.resource), selection, offset)
    return await call.search(selection.resource, behind(selection, place, offset, size, brief=brief)), place.total


def _encoded(answer: bytes, variant: Variant, size: int, *, brief: bool) -> Sequence[Encoded]:
    if brief:
        return briefs(variant.resource, doc_values(variant.resource, answer), underscored=variant.underscored)
    return variant.encode(records(answer, size))


async def whole(call: Call, selection: Selection, variant: Variant) -> list[Encoded]:
    """Return every record of a small collection, read in steps so that none is cut off."""
    found: list[Encoded] = []
    after: str | None = None
    while True:
        stored = records(
            await call.search(selection.resource, walk_body(selection, _WHOLE_AT_ONCE, after)), _WHOLE_AT_ONCE + 1
        )
        found.extend(variant.encode(stored[:_WHOLE_AT_ONCE]))
        if len(stored) <= _WHOLE_AT_ONCE:
            return found
        after = identifier(selection.resource, stored[_WHOLE_AT_ONCE - 1])


async def one(call: Call, selection: Selection, variant: Variant) -> Encoded | None:
    """Return the only record of a selection, or None."""
    found = records(await call.search(selection.resource, page_body(selection, 1)), 1)
    return variant.encode(found)[0] if found else None


async def one_of_many(call: Call, resource: Resource, name: str, variant: Variant) -> Encoded | None:
    """Return the record with an identifier within the scope, or None; read together with those of other requests."""
    alias, selection = call.services.connection.alias(resource), Selection(resource, call.scope)
    search = partial(_together, call.services.engine, alias, selection)
    call.laps.lap(Layer.QUERY)
    record = await call.services.gathering.get((alias, call.scope.companies), name, search)
    call.laps.lap(Layer.ELASTICSEARCH)
    return None if record is None else variant.encode([record])[0]


async def _together(engine: Engine, alias: str, selection: Selection, names: Sequence[str]) -> dict[str, Encoded]:
    body = page_body(selection.restricted(terms("_id", names)), len(names))
    found = records(await engine.search_anew(alias, body), len(names))
    return {identifier(selection.resource, record): record for record in found}
