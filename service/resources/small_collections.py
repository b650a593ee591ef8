"""Small collections: all records at once, or pages on request."""

from dataclasses import dataclass
from typing import ClassVar

from aiohttp import web
from marshmallow import Schema

from service.http.responses import json_array, json_response
from service.parameters.groups import DEFAULT_PAGE_SIZE
from service.request_context import RequestContext
from service.resources.filters import filter_clauses
from service.resources.response import Envelope, ResourceResponse
from service.search.pagination import all_records, numbered_page


@dataclass(frozen=True)
class CollectionResponse(ResourceResponse):
    """Every record of the scope as an array, or the page that `page_number` or `page_size` selects."""

    own_parameters: ClassVar[frozenset[str]] = frozenset({"page_number", "page_size"})

    async def __call__(self, call: RequestContext) -> web.Response:
        """Return the collection or the page."""
        clauses = await filter_clauses(call, self.rules, self.resource.address_fields)
        selection, variant = call.selection(self.resource, clauses), call.variant(self.resource, self.view)
        if call.parameters["page_number"] is None and call.parameters["page_size"] is None:
            return json_response(json_array(await all_records(call, selection, variant)))
        page = await numbered_page(call, selection, variant, call.parameters["page_size"] or DEFAULT_PAGE_SIZE)
        return json_response(json_array(page.records), page.headers(call))

    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:  # noqa: ARG002 - the same for all parameters
        """Return the array envelope alone."""
        return (Envelope.ARRAY,)
