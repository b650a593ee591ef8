"""What shows have in common: one record by the identifier in the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings.fields import View
from service import geojson
from service.errors import InvalidRequest, NotFound
from service.headers import OF_TWO_TYPES
from service.media import GEOJSON
from service.paging import one, one_of_many
from service.query import Clause, Selection
from service.responses import json_answer

if TYPE_CHECKING:
    from aiohttp import web

    from mappings.resource import Resource
    from service.operation import Call


async def show(call: Call, resource: Resource, path_name: str, clause: Clause | None = None) -> web.Response:
    """Answer the record that the path names within the scope, or 404; a foreign record looks like an unknown one."""
    identifier = call.path[path_name]
    _refuse_other(call, path_name, identifier)
    variant = call.variant(resource, View.SHOW)
    if clause is None:
        record = await one_of_many(call, resource, identifier, variant)
    else:
        record = await one(call, Selection(resource, call.scope, (clause,)), variant)
    if record is None:
        raise NotFound(f"There is no {resource.title} {identifier!r}.")
    if not geojson.is_placed(resource):
        return json_answer([record])
    if geojson.is_asked(call):
        return json_answer(geojson.feature(variant, record), OF_TWO_TYPES, GEOJSON)
    return json_answer([record], OF_TWO_TYPES)


def _refuse_other(call: Call, path_name: str, identifier: str) -> None:
    """Refuse an identifier repeated in the query that differs from the path's."""
    repeated = call.parameters.get(path_name)
    if repeated is not None and repeated != identifier:
        raise InvalidRequest.of(path_name, "differs from the identifier in the path.")
