"""The name, summary and description of an operation, from its declaration."""

import inspect
from collections.abc import Iterator

from mappings.fields import View
from service.http.negotiation import GEOJSON
from service.operation import Operation
from service.records.geojson import has_coordinates
from service.resources.response import BRIEF, UPDATED_SINCE, Envelope, ResourceResponse, response_of

_PAGE_NUMBER = "page_number"


def operation_names(operation: Operation) -> dict[str, str]:
    """Return the members `operationId`, `summary` and `description` of an operation."""
    handler = operation.handler
    if isinstance(handler, ResourceResponse):
        named = {"operationId": handler.operation_id, "summary": handler.summary}
        return named | {"description": " ".join(_sentences(operation))}
    summary, _, rest = (inspect.getdoc(handler) or "").partition("\n\n")
    named = {"operationId": handler.__name__, "summary": summary.rstrip(".")}
    return named | {"description": " ".join(rest.split())}


def _sentences(operation: Operation) -> Iterator[str]:
    response, parameters = response_of(operation), operation.schema.fields
    yield from _show_sentences(response) if response.view is View.SHOW else _index_sentences(operation, response)
    if UPDATED_SINCE in parameters:
        yield "`X-Next-Updated-Since` of the first page is the `updated_since` of the next synchronization."
    if BRIEF in parameters:
        yield f"`{BRIEF}=true` returns identifiers and times alone."
    if has_coordinates(response.resource):
        yield f"`Accept: {GEOJSON}` returns GeoJSON."


def _show_sentences(response: ResourceResponse) -> Iterator[str]:
    yield f"The {response.resource.title} with the identifier in the path."
    yield "404 if it does not exist or the key cannot read it."


def _index_sentences(operation: Operation, response: ResourceResponse) -> Iterator[str]:
    records, identifier = response.resource.alias.replace("_", " "), response.resource.identifier
    if Envelope.WALK_PAGE in response.envelopes(operation.schema):
        yield f"A page of {records}, ordered by `{identifier}`."
        yield "Follow `Link`, or send the last identifier as `last_platform_listing_id`, until `FinalPage` is true."
    elif _PAGE_NUMBER in operation.schema.fields:
        yield f"A page of {records}, ordered by `{identifier}`."
        yield "Pages are numbered from 1; `X-Total-Pages` says how many there are."
    else:
        yield f"All {records} that the key can read, ordered by `{identifier}`."
