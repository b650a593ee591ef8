"""`/offices` and `/offices/{platform_office_id}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import OFFICE
from mappings.fields import View
from service.operation import Call, Operation
from service.paging import numbered_page
from service.parameters.fields import Text
from service.parameters.groups import Deactivation, Numbered, ParentScope, Timestamped
from service.query import Selection
from service.resources.activity import activity
from service.resources.records import show
from service.responses import json_answer

if TYPE_CHECKING:
    from aiohttp import web


class OfficesParameters(ParentScope, Numbered, Deactivation, Timestamped):
    """Parameters of the offices index."""


class OfficeParameters(ParentScope):
    """Parameters of the office show."""

    platform_office_id = Text("May repeat the identifier in the path.")


async def list_offices(call: Call) -> web.Response:
    """Answer a page of offices: `{page_number, total_pages, offices}`."""
    selection = Selection(OFFICE, call.scope, (activity(call.parameters),))
    page = await numbered_page(call, selection, call.variant(OFFICE, View.INDEX), call.parameters["page_size"])
    return json_answer(page.enclosed("offices"), page.headers(call))


async def show_office(call: Call) -> web.Response:
    """Answer one office."""
    return await show(call, OFFICE, "platform_office_id")


OPERATIONS = (
    Operation("/offices", OfficesParameters(), list_offices),
    Operation("/offices/{platform_office_id}", OfficeParameters(), show_office),
)
