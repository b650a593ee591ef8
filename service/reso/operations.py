"""The operations of the RESO Web API, with keys that come in any way and absolute links."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
import orjson
from aiohttp import web
from marshmallow import Schema

from service.errors import NotFound
from service.http.requests import joined_lines
from service.http.responses import json_response
from service.keys.authentication import Credentials
from service.limits.admission import RequestKind
from service.operation import Operation, ReadOrigin
from service.request_context import RequestContext
from service.reso.annotations import annotated_value
from service.reso.continuation import read_proof
from service.reso.entity_events import EVENT_ENTITY_SET, SEQUENCE_PROPERTY, query_event, query_events
from service.reso.metadata import metadata_document, metadata_in_json, service_document
from service.reso.ordering import SkipToken
from service.reso.paging import RESPONSE_HEADERS, PageSource, context, entity_response, page_response
from service.reso.protocol import (
    ACCEPT,
    DATA_FORMATS,
    EXPAND,
    FORMAT,
    METADATA_FORMATS,
    SELECT,
    XML,
    Format,
    OptionNotImplemented,
    is_limited_to_4_0,
    negotiate_format,
    require_known_version,
)
from service.reso.query_options import (
    COLLECTION_OPTIONS,
    COUNT_OPTIONS,
    ENTITY_OPTIONS,
    EXPANDABLE_COLLECTION_OPTIONS,
    EXPANDABLE_ENTITY_OPTIONS,
    METADATA_OPTIONS,
    SERVICE_DOCUMENT_OPTIONS,
    VALUE_OPTIONS,
    ExpandItem,
    refuse_unimplemented,
)
from service.reso.sets.child_query import count_selected, query_child, query_children
from service.reso.sets.child_sets import ChildSet
from service.reso.sets.declarations import ENTITY_SETS, Navigation, child_navigations, navigations
from service.reso.sets.entity_query import count_records, query_record, query_records
from service.reso.sets.entity_set import EntitySet
from service.reso.sets.expand import expand
from service.reso.sets.static_sets import StaticSet, query_static, query_static_row, select_static


async def query_entities(call: RequestContext, entity_set: EntitySet) -> PageSource[Any]:
    """Return the rows that the query options select; raise ApiError for invalid ones."""
    if isinstance(entity_set, StaticSet):
        return await query_static(call, entity_set)
    if isinstance(entity_set, ChildSet):
        return query_children(call, entity_set)
    names, children = _property_names(call, entity_set), child_navigations(entity_set.name)
    return expand(call, query_records(call, entity_set, names, children), call.parameters.get(EXPAND) or ())


async def count_entities(call: RequestContext, entity_set: EntitySet) -> int:
    """Return the number of rows that `$filter` selects; raise ApiError for an invalid one."""
    if isinstance(entity_set, StaticSet):
        return len(await select_static(call, entity_set))
    if isinstance(entity_set, ChildSet):
        return await count_selected(call, entity_set)
    return await count_records(call, entity_set, child_navigations(entity_set.name))


def query_entity(
    call: RequestContext,
    entity_set: EntitySet,
    names: Sequence[str] | None,
    items: Sequence[ExpandItem] = (),
) -> PageSource[Any]:
    """Return the row with the key in the path, with some properties, None for all, and expanded ones.

    Raises InvalidRequest for an unknown one.
    """
    key = _key(call)
    if isinstance(entity_set, StaticSet):
        return query_static_row(call, entity_set, key, names)
    if isinstance(entity_set, ChildSet):
        return query_child(call, entity_set, key, names)
    return expand(call, query_record(call, entity_set, key, names), items)


def _key(call: RequestContext) -> str:
    return call.client.path["key"].replace("''", "'")


def _property_names(call: RequestContext, entity_set: EntitySet) -> Sequence[str] | None:
    """Return the selected properties; of those that lead to other entities, `$expand` names what is included."""
    selected: Sequence[str] | None = call.parameters[SELECT]
    known = navigations(entity_set.name)
    return selected and [name for name in selected if name not in known]


_TEXT = "text/plain"
_METADATA_HEADERS = {"Vary": f"{RESPONSE_HEADERS['Vary']}, OData-MaxVersion"}
# An entity is read by its key as a page of one row.
_SINGLE_ROW = SkipToken(b"", 1)


def _check(request: web.Request, schema: Schema) -> None:
    """Raise ApiError for a version or an option of OData that is not implemented."""
    require_known_version(request.headers)
    refuse_unimplemented(request.query, schema)


def _refine(formats: tuple[Format, ...], call: RequestContext, read_origin: ReadOrigin) -> RequestContext:
    parameters = call.parameters
    if formats:
        accept = joined_lines(call.client.headers, ACCEPT)
        parameters = {**parameters, FORMAT: negotiate_format(parameters[FORMAT], accept, formats)}
    return replace(call, client=call.client._replace(origin=read_origin()), parameters=parameters)


def _operation(
    path: str,
    schema: Schema,
    handler: Callable[[RequestContext], Awaitable[web.Response]],
    formats: tuple[Format, ...] = DATA_FORMATS,
    kind: RequestKind | None = None,
) -> Operation:
    """Return an operation below `/reso`: the key may come in any way, and links are absolute URLs.

    `formats` are those that clients choose from, none if there is one whatever they accept.
    """
    refine = partial(_refine, formats)
    return Operation(
        path,
        schema,
        handler,
        kind,
        credentials=Credentials.ANY,
        adaptable=False,
        check=_check,
        refine=refine,
        read_proof=read_proof,
    )


async def show_service(call: RequestContext) -> web.Response:
    """Return the service document: the names of the entity sets."""
    return _json_response(call, {**context(call, ""), **service_document()})


async def show_metadata(call: RequestContext) -> web.Response:
    """Return the metadata document: in XML, or in JSON to clients that prefer it and know OData 4.01."""
    if call.parameters[FORMAT].media_type == XML or is_limited_to_4_0(call.client.headers):
        return json_response([metadata_document()], _METADATA_HEADERS, XML)
    return json_response([metadata_in_json()], _METADATA_HEADERS)


def _json_response(call: RequestContext, body: dict[str, object]) -> web.Response:
    return json_response([msgspec.json.encode(body)], RESPONSE_HEADERS, call.parameters[FORMAT].content_type)


async def list_entities(entity_set: EntitySet, call: RequestContext) -> web.Response:
    return await page_response(call, await query_entities(call, entity_set))


async def show_count(entity_set: EntitySet, call: RequestContext) -> web.Response:
    """Return the number of entities that the filter selects, as plain text."""
    return json_response([b"%d" % await count_entities(call, entity_set)], RESPONSE_HEADERS, _TEXT)


async def show_entity(entity_set: EntitySet, call: RequestContext) -> web.Response:
    """Return the entity with a key, or raise NotFound, also for a record outside the scope."""
    source = query_entity(call, entity_set, _property_names(call, entity_set), call.parameters.get(EXPAND) or ())
    return await entity_response(call, entity_set.name, await _read_entity(entity_set, call, source))


async def show_property(entity_set: EntitySet, call: RequestContext) -> web.Response:
    """Return one property of an entity, 204 if it is null, or raise NotFound."""
    name = call.client.path["property"]
    if name not in entity_set.properties:
        raise NotFound(f"{entity_set.name} has no property {name[:40]!r}.")
    value = orjson.loads(await _read_entity(entity_set, call, query_entity(call, entity_set, (name,))))[name]
    if value is None:
        return web.Response(status=HTTPStatus.NO_CONTENT, headers=RESPONSE_HEADERS)
    described = context(call, f"#{entity_set.name}('{call.client.path['key']}')/{name}")
    members = annotated_value(call.parameters[FORMAT], entity_set.properties[name].edm, value)
    return _json_response(call, {**described, **members})


async def list_related(entity_set: EntitySet, children: ChildSet, call: RequestContext) -> web.Response:
    """Return the children of an entity as a page of their own set, or raise NotFound."""
    return await page_response(call, query_children(call, children, await _existing_key(entity_set, call)))


async def count_related(entity_set: EntitySet, children: ChildSet, call: RequestContext) -> web.Response:
    """Return the number of children of an entity that the filter selects, as plain text, or raise NotFound."""
    number = await count_selected(call, children, await _existing_key(entity_set, call))
    return json_response([b"%d" % number], RESPONSE_HEADERS, _TEXT)


async def show_related(entity_set: EntitySet, navigation: Navigation, call: RequestContext) -> web.Response:
    """Return the entity that a navigation property leads to, 204 if the key may read none, or raise NotFound."""
    item = ExpandItem(navigation.name, call.parameters[SELECT])
    expanded = await _read_entity(entity_set, call, query_entity(call, entity_set, (entity_set.key,), (item,)))
    related = msgspec.json.decode(expanded, type=dict[str, msgspec.Raw])[navigation.name]
    if bytes(related) == b"null":
        return web.Response(status=HTTPStatus.NO_CONTENT, headers=RESPONSE_HEADERS)
    return await entity_response(call, navigation.target.name, bytes(related))


async def _existing_key(entity_set: EntitySet, call: RequestContext) -> str:
    """Return the key in the path as the entity has it."""
    name = entity_set.key
    key: str = orjson.loads(await _read_entity(entity_set, call, query_entity(call, entity_set, (name,))))[name]
    return key


async def _read_entity(entity_set: EntitySet, call: RequestContext, source: PageSource[Any]) -> bytes:
    rows = await source.rows(_SINGLE_ROW, 1)
    if not rows:
        key = _key(call)
        for resource in entity_set.resources:
            call.note_absent(resource, key)
        raise NotFound(f"There is no {entity_set.name} with {entity_set.key} {key!r}.")
    [entity] = await source.encode_rows(rows)
    return entity


async def list_events(call: RequestContext) -> web.Response:
    return await page_response(call, await query_events(call))


async def show_event(call: RequestContext) -> web.Response:
    """Return the event with a number, quoted or not, or raise NotFound."""
    number = call.client.path["key"].removeprefix(f"{SEQUENCE_PROPERTY}=").strip("'")
    if number.isascii() and number.isdigit():
        source = await query_event(call, number)
        if rows := await source.rows(_SINGLE_ROW, 1):
            [entity] = await source.encode_rows(rows)
            return await entity_response(call, source.name, entity)
    raise NotFound(f"There is no {EVENT_ENTITY_SET} with {SEQUENCE_PROPERTY} {number!r}.")


BATCH_PATH = "/reso/$batch"


async def refuse_batch(_: web.Request) -> web.Response:
    """Raise OptionNotImplemented for `POST $batch`."""
    raise OptionNotImplemented("$batch", "a batch of requests", "Send them one by one, on connections that stay open.")


def _navigation_operations(path: str, entity_set: EntitySet, link: Navigation) -> Iterator[Operation]:
    if link.children is None:
        yield _operation(path, ENTITY_OPTIONS, partial(show_related, entity_set, link))
    else:
        yield _operation(
            path, COLLECTION_OPTIONS, partial(list_related, entity_set, link.children), kind=RequestKind.PAGE
        )
        yield _operation(f"{path}/$count", COUNT_OPTIONS, partial(count_related, entity_set, link.children), formats=())


def _entity_set_operations(name: str, entity_set: EntitySet) -> Iterator[Operation]:
    is_expandable = bool(navigations(name))
    of_page = EXPANDABLE_COLLECTION_OPTIONS if is_expandable else COLLECTION_OPTIONS
    of_entity = EXPANDABLE_ENTITY_OPTIONS if is_expandable else ENTITY_OPTIONS
    yield _operation(f"/reso/{name}", of_page, partial(list_entities, entity_set))
    yield _operation(f"/reso/{name}/$count", COUNT_OPTIONS, partial(show_count, entity_set), formats=())
    for path in (f"/reso/{name}('{{key}}')", f"/reso/{name}({entity_set.key}='{{key}}')"):
        yield _operation(path, of_entity, partial(show_entity, entity_set))
        for link in navigations(name).values():
            yield from _navigation_operations(f"{path}/{link.name}", entity_set, link)
        yield _operation(f"{path}/{{property}}", VALUE_OPTIONS, partial(show_property, entity_set))


RESO_OPERATIONS: tuple[Operation, ...] = (
    _operation("/reso", SERVICE_DOCUMENT_OPTIONS, show_service),
    _operation("/reso/$metadata", METADATA_OPTIONS, show_metadata, formats=METADATA_FORMATS),
    _operation(f"/reso/{EVENT_ENTITY_SET}", COLLECTION_OPTIONS, list_events),
    _operation(f"/reso/{EVENT_ENTITY_SET}({{key}})", ENTITY_OPTIONS, show_event),
    *(operation for name, entity_set in ENTITY_SETS.items() for operation in _entity_set_operations(name, entity_set)),
)
