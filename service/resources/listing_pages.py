"""Pages of a feed, with the last identifier as the cursor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from aiohttp import web
from marshmallow import Schema

from mappings.resource import Resource
from service.http.headers import NEXT_WATERMARK, TWO_MEDIA_TYPE_HEADERS
from service.http.negotiation import GEOJSON
from service.http.payload import JsonBytes
from service.http.responses import json_array, json_response, link_header
from service.records import geojson
from service.records.projection import Variant
from service.request_context import RequestContext
from service.resources.filters import filter_clauses
from service.resources.response import BRIEF, UPDATED_SINCE, Envelope, ResourceResponse
from service.resources.watermarks import with_true_watermark
from service.scope import COMPANY_PARAMETER
from service.search.pagination import WalkPage, walk_page
from service.telemetry.observation import CURRENT_OBSERVATION, FeedPage

CURSOR = "last_platform_listing_id"
# The members of a page in both spellings: whether it is the last one, and its records.
FINAL_PAGE = ("FinalPage", "final_page")
RECORDS = ("Listings", "listings")


@dataclass(frozen=True)
class WalkResponse(ResourceResponse):
    """A page of a feed: `{FinalPage, Listings}`, or a GeoJSON feature collection if the client prefers that."""

    own_parameters: ClassVar[frozenset[str]] = frozenset({CURSOR, "page_size", BRIEF})

    async def __call__(self, call: RequestContext) -> web.Response:
        """Return the page after the record that `last_platform_listing_id` names."""
        call = await with_true_watermark(call, self.resource)
        clauses = await filter_clauses(call, self.rules, self.resource.address_fields)
        variant, as_features = (
            call.variant(self.resource, self.view),
            geojson.wants_geojson(call.headers, call.parameters),
        )
        watermark = await next_watermark(call, self.resource)
        selection = call.selection(self.resource, clauses)
        page = await walk_page(call, selection, variant, call.parameters["page_size"])
        CURRENT_OBSERVATION.get().page = _observed(call, self.resource, page, watermark)
        following = {} if page.is_final else {"next": {CURSOR: page.last}}
        headers = {**TWO_MEDIA_TYPE_HEADERS, **watermark, **link_header(call.url, following)}
        if as_features:
            return json_response(
                geojson.feature_collection(variant, page.records, is_final=page.is_final), headers, GEOJSON
            )
        return json_response(_page_body(variant, page.records, is_final=page.is_final), headers)

    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:  # noqa: ARG002 - the same for all parameters
        """Return the envelope of a cursor page alone."""
        return (Envelope.WALK_PAGE,)


def _observed(call: RequestContext, resource: Resource, page: WalkPage, watermark: dict[str, str]) -> FeedPage:
    sent = call.parameters
    return FeedPage(
        resource=resource.alias,
        company=sent.get(COMPANY_PARAMETER) or "",
        after=sent[CURSOR],
        last=page.last,
        updated_since=sent[UPDATED_SINCE],
        is_final=page.is_final,
        watermark=int(watermark[NEXT_WATERMARK]) if watermark else None,
    )


def _page_body(variant: Variant, records: Sequence[JsonBytes], *, is_final: bool) -> list[JsonBytes]:
    final_page, listings = variant.spell(*FINAL_PAGE), variant.spell(*RECORDS)
    truth = "true" if is_final else "false"
    return json_array(records, f'{{"{final_page}":{truth},"{listings}":'.encode(), b"}")


async def next_watermark(call: RequestContext, resource: Resource) -> dict[str, str]:
    """Return the header with the `updated_since` of the next walk, on the first page of a walk alone.

    Its value is the indexer's mark, read long enough ago that every search of this walk, in any process, starts later:
    the pages contain everything stamped up to the mark.
    """
    if call.parameters.get(CURSOR) or (call.parameters.get("page_number") or 1) > 1:
        return {}
    # In an index of several shards, a walk of several companies sees records where they were at the mark.
    is_by_mark = call.scope.single_company is None and call.served_shards(resource) is not None
    mark = await call.services.marks[resource].settled(everywhere=is_by_mark)
    return {} if mark is None else {NEXT_WATERMARK: str(mark.clock // 1000)}
