"""The operations of the RESO Web API: the way of a request is that of all others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from service.authentication import authenticate
from service.errors import NotFound
from service.operation import Call, Operation
from service.reso import events
from service.reso.answers import HEADERS, entity_answer, page_answer
from service.reso.entities import ENTITY_SETS, EntitySet
from service.reso.happenings import happening, happenings
from service.reso.links import origin_of, root_of
from service.reso.metadata import metadata, service_document
from service.reso.options import COLLECTION, DOCUMENT, METADATA, SINGLE, refuse_elsewhere
from service.reso.token import Walk
from service.reso.wording import entities, entity
from service.responses import json_answer

if TYPE_CHECKING:
    from aiohttp import web

    from service.keys.record import ApiKey
    from service.keys.ring import KeyRing
    from service.layers import Laps
    from service.services import Services

_XML = "application/xml"
# What is asked for by its key is one row of a walk.
_ONE = Walk(b"", 1)


@dataclass(frozen=True)
class ResoOperation(Operation):
    """An operation below `/reso`: it takes a key as a bearer token too, and links to absolute URLs."""

    async def _authenticated(self, request: web.Request, keys: KeyRing) -> ApiKey:
        return await authenticate(request, keys, takes_bearer=True)

    async def _accept(self, services: Services, request: web.Request, laps: Laps, key: ApiKey) -> Call:
        refuse_elsewhere(request.query, self.schema)
        call = await super()._accept(services, request, laps, key)
        return replace(call, origin=origin_of(request, services.trusted))


async def show_service(call: Call) -> web.Response:
    """Answer the service document: the names of the entity sets."""
    return json_answer([service_document(root_of(call))], HEADERS)


async def show_metadata(_: Call) -> web.Response:
    """Answer the metadata document in XML."""
    return json_answer([metadata()], HEADERS, _XML)


async def list_entities(entity_set: EntitySet, call: Call) -> web.Response:
    """Answer a page of an entity set."""
    return await page_answer(call, entities(call, entity_set))


async def show_entity(entity_set: EntitySet, call: Call) -> web.Response:
    """Answer the entity with a key, or raise NotFound; one out of scope looks like one that is not there."""
    key = call.path["key"].replace("''", "'")
    found = entity(call, entity_set, key)
    rows = await found.rows(_ONE, 1)
    if not rows:
        raise NotFound(f"There is no {entity_set.name} with {entity_set.key} {key!r}.")
    return entity_answer(call, entity_set.name, *found.encoded(rows))


async def list_events(call: Call) -> web.Response:
    """Answer a page of events."""
    return await page_answer(call, await happenings(call))


async def show_event(call: Call) -> web.Response:
    """Answer the event with a number, in quotes or not, or raise NotFound."""
    number = call.path["key"].strip("'")
    if number.isascii() and number.isdigit():
        found = await happening(call, number)
        if rows := await found.rows(_ONE, 1):
            return entity_answer(call, found.name, *found.encoded(rows))
    raise NotFound(f"There is no {events.NAME} with {events.NUMBER} {number!r}.")


def _of(name: str, entity_set: EntitySet) -> tuple[Operation, ...]:
    return (
        ResoOperation(f"/reso/{name}", COLLECTION, partial(list_entities, entity_set)),
        ResoOperation(f"/reso/{name}('{{key}}')", SINGLE, partial(show_entity, entity_set)),
    )


RESO_OPERATIONS: tuple[Operation, ...] = (
    ResoOperation("/reso", DOCUMENT, show_service),
    ResoOperation("/reso/$metadata", METADATA, show_metadata),
    ResoOperation(f"/reso/{events.NAME}", COLLECTION, list_events),
    ResoOperation(f"/reso/{events.NAME}({{key}})", SINGLE, show_event),
    *(operation for name, each in ENTITY_SETS.items() for operation in _of(name, each)),
)
