"""What the two listing feeds have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings.fields import View
from service import geojson
from service.headers import NEXT_WATERMARK, OF_TWO_TYPES
from service.media import GEOJSON
from service.paging import walk_page
from service.query import Clause, Selection, either, term, terms
from service.responses import array, json_answer, links
from service.scope import COMPANY
from service.telemetry.observation import OBSERVED, FeedPage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from mappings.resource import Resource
    from service.answer import Encoded
    from service.operation import Call
    from service.paging import WalkPage
    from service.projection import Variant


async def feed(call: Call, resource: Resource, clauses: list[Clause]) -> web.Response:
    """Answer one page of a feed: `{FinalPage, Listings}`, or a collection of features where that is asked for."""
    variant, as_features = call.variant(resource, View.INDEX), geojson.is_asked(call)
    watermark = await next_watermark(call, resource)
    selection = Selection(resource, call.scope, tuple(clauses))
    page = await walk_page(call, selection, variant, call.parameters["page_size"])
    OBSERVED.get().page = _seen(call, resource, page, watermark)
    following = {} if page.final else {"next": {"last_platform_listing_id": page.last}}
    headers = {**OF_TWO_TYPES, **watermark, **links(call.url, following)}
    if as_features:
        return json_answer(geojson.collection(variant, page.records, final=page.final), headers, GEOJSON)
    return json_answer(_body(variant, page.records, final=page.final), headers)


def _seen(call: Call, resource: Resource, page: WalkPage, watermark: dict[str, str]) -> FeedPage:
    sent = call.parameters
    return FeedPage(
        resource=resource.alias,
        company=sent.get(COMPANY) or "",
        after=sent["last_platform_listing_id"],
        last=page.last,
        updated_since=sent["updated_since"],
        is_final=page.final,
        watermark=int(watermark[NEXT_WATERMARK]) if watermark else None,
    )


def _body(variant: Variant, records: Sequence[Encoded], *, final: bool) -> list[Encoded]:
    final_page, listings = variant.spell("FinalPage", "final_page"), variant.spell("Listings", "listings")
    truth = "true" if final else "false"
    return array(records, f'{{"{final_page}":{truth},"{listings}":'.encode(), b"}")


async def next_watermark(call: Call, resource: Resource) -> dict[str, str]:
    """Return, for the first page of a walk, the second from which the next walk need ask.

    It is the indexer's mark, read so long ago that whatever answers a page of this walk, in whichever process, was
    searched for later: all that is stamped up to it is in these pages.
    """
    if call.parameters.get("last_platform_listing_id") or (call.parameters.get("page_number") or 1) > 1:
        return {}
    mark = await call.services.marks[resource].settled()
    return {} if mark is None else {NEXT_WATERMARK: str(mark.clock // 1000)}


def of_agents(fields: tuple[str, ...], uuids: list[str]) -> list[Clause]:
    """Return a clause for each agent: one of the fields names it."""
    return [either(*(term(field, uuid) for field in fields)) for uuid in uuids]


def of_office(fields: tuple[str, ...], office: str | None) -> list[Clause]:
    """Return the clause for an office: one of the fields names it."""
    return [] if office is None else [either(*(term(field, office) for field in fields))]


def of_types(property_types: list[int] | None) -> list[Clause]:
    """Return the clause for property types."""
    return [] if property_types is None else [terms("property_type_id", property_types)]
