"""What the small collections have in common: a whole array, or pages of it where they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings.fields import View
from service.paging import numbered_page, whole
from service.parameters.groups import SMALL_PAGE
from service.query import Selection
from service.responses import array, json_answer

if TYPE_CHECKING:
    from aiohttp import web

    from mappings.resource import Resource
    from service.operation import Call


async def small_collection(call: Call, resource: Resource) -> web.Response:
    """Answer every record of the scope as a JSON array, or the page that `page_number` or `page_size` asks for."""
    selection, variant = Selection(resource, call.scope), call.variant(resource, View.INDEX)
    if call.parameters["page_number"] is None and call.parameters["page_size"] is None:
        return json_answer(array(await whole(call, selection, variant)))
    page = await numbered_page(call, selection, variant, call.parameters["page_size"] or SMALL_PAGE)
    return json_answer(array(page.records), page.headers(call))
