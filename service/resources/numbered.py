"""Numbered pages of a collection."""

from dataclasses import dataclass
from typing import ClassVar

from aiohttp import web
from marshmallow import Schema

from service.http.responses import json_array, json_response
from service.request_context import RequestContext
from service.resources.filters import filter_clauses
from service.resources.listing_pages import next_watermark
from service.resources.response import BRIEF, ENVELOPE, UPDATED_SINCE, Envelope, ResourceResponse
from service.resources.watermarks import with_true_watermark
from service.search.pagination import numbered_page


@dataclass(frozen=True)
class PageResponse(ResourceResponse):
    """A page by its number: an array with the paging in headers, or `{page_number, total_pages, <alias>}`.

    It is the object if `is_enclosed` is set or the client sends `envelope`.
    """

    is_enclosed: bool = False
    own_parameters: ClassVar[frozenset[str]] = frozenset({"page_number", "page_size", BRIEF, ENVELOPE})

    async def __call__(self, call: RequestContext) -> web.Response:
        """Return the page that `page_number` and `page_size` select."""
        call = await with_true_watermark(call, self.resource)
        clauses = await filter_clauses(call, self.rules, self.resource.address_fields)
        watermark = await next_watermark(call, self.resource) if UPDATED_SINCE in call.parameters else {}
        variant = call.variant(self.resource, self.view)
        page = await numbered_page(call, call.selection(self.resource, clauses), variant, call.parameters["page_size"])
        is_enclosed = self.is_enclosed or call.parameters.get(ENVELOPE)
        body = page.to_json(self.resource.alias) if is_enclosed else json_array(page.records)
        return json_response(body, {**page.headers(call), **watermark})

    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:
        """Return one envelope, or both if the operation has the parameter `envelope`."""
        if self.is_enclosed:
            return (Envelope.NUMBERED_PAGE,)
        return (Envelope.ARRAY, Envelope.NUMBERED_PAGE) if ENVELOPE in schema.fields else (Envelope.ARRAY,)
