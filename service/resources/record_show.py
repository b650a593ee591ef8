"""One record, by the identifier in the path."""

from dataclasses import dataclass
from typing import ClassVar

from aiohttp import web
from marshmallow import Schema

from mappings.fields import View
from service.errors import InvalidRequest, NotFound
from service.http.headers import TWO_MEDIA_TYPE_HEADERS
from service.http.negotiation import GEOJSON
from service.http.payload import JsonBytes
from service.http.responses import json_response
from service.records import geojson
from service.records.projection import Variant
from service.request_context import RequestContext
from service.resources.response import Envelope, ResourceResponse
from service.search.pagination import single_record
from service.search.query import by_id, match_any, spellings, term
from service.search.reads.record_lookup import batched_record


@dataclass(frozen=True)
class RecordResponse(ResourceResponse):
    """The record in the path, or 404, also for a record outside the scope.

    `alternative` is another search field that identifies the record.
    """

    alternative: str = ""
    view: ClassVar[View] = View.SHOW

    async def __call__(self, call: RequestContext) -> web.Response:
        """Return the record, as a GeoJSON feature if the client prefers that; raise NotFound."""
        [(variable, identifier)] = call.path.items()
        _refuse_different_identifier(call, variable, identifier)
        variant = call.variant(self.resource, self.view)
        record = await self.find(call, identifier, variant)
        if record is None:
            call.audit.absent(self.resource, identifier)
            raise NotFound(f"There is no {self.resource.title} {identifier!r}.")
        if not geojson.has_coordinates(self.resource):
            return json_response([record])
        if geojson.wants_geojson(call.headers, call.parameters):
            return json_response(geojson.feature(variant, record), TWO_MEDIA_TYPE_HEADERS, GEOJSON)
        return json_response([record], TWO_MEDIA_TYPE_HEADERS)

    async def find(self, call: RequestContext, identifier: str, variant: Variant) -> JsonBytes | None:
        """Return the encoded record with an identifier, None if the scope has none."""
        if not self.alternative:
            return await self._find_spelled(call, identifier, variant)
        clause = match_any(by_id(identifier), term(self.alternative, identifier))
        return await single_record(call, call.selection(self.resource, (clause,)), variant)

    async def _find_spelled(self, call: RequestContext, identifier: str, variant: Variant) -> JsonBytes | None:
        for name in spellings(identifier):
            if (record := await batched_record(call, self.resource, name, variant)) is not None:
                return record
        return None

    def envelopes(self, schema: Schema) -> tuple[Envelope, ...]:  # noqa: ARG002 - the same for all parameters
        """Return the bare record alone."""
        return (Envelope.NONE,)


def _refuse_different_identifier(call: RequestContext, variable: str, identifier: str) -> None:
    """Raise InvalidRequest if the query repeats the identifier with another value."""
    repeated = call.parameters.get(variable)
    if repeated is not None and {*spellings(repeated)}.isdisjoint(spellings(identifier)):
        raise InvalidRequest.of(variable, "differs from the identifier in the path.")
