"""`/changes`: everything that changed since a token, with what has gone (decision 12)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from mappings import RESOURCES
from service.admission import Kind
from service.errors import InvalidRequest
from service.feed import token
from service.feed.changes import Changes, read_page
from service.feed.expired import TokenExpired
from service.feed.token import Place
from service.feed.view import Kept
from service.layers import Layer
from service.operation import Call, Operation
from service.parameters.feed import Copied, Resources, Tokens
from service.parameters.fields import WholeNumber
from service.parameters.groups import LARGEST_PAGE
from service.responses import array, json_answer, links
from service.telemetry.observation import OBSERVED

if TYPE_CHECKING:
    from aiohttp import web

    from service.feed.token import Places

LONGEST_WAIT_SECONDS = 30


class ChangesParameters(Copied):
    """Parameters of the change feed."""

    since = Tokens("Where to go on: a token, or several that cover other resources each. Absent: from the beginning.")
    resources = Resources("Resources to tell of, separated by commas; absent those of the tokens, else all.")
    page_size = WholeNumber("Changes a page; 200 when absent.", least=1, most=LARGEST_PAGE, load_default=200)
    wait = WholeNumber(
        "Seconds to hold the answer back while there is nothing to tell.",
        least=0,
        most=LONGEST_WAIT_SECONDS,
        load_default=0,
    )


async def list_changes(call: Call) -> web.Response:
    """Answer what changed since a token, in order: whole records, and why others are gone."""
    kept = Kept(call)
    page = await _awaited(call, kept, await _begin(call, kept))
    following = token.write(kept.fingerprint, page.places)
    at_end = "true" if page.at_end else "false"
    body = array(page.entries, b'{"changes":', f',"next":"{following}","at_end":{at_end}}}'.encode())
    return json_answer(body, links(call.url, {"next": {"since": following}}))


async def _begin(call: Call, kept: Kept) -> Places:
    """Return the places to go on from; raise TokenExpired or InvalidRequest."""
    chosen = call.parameters["resources"]
    if (sent := call.parameters["since"]) is None:
        marks = {resource: await call.services.marks[resource].get() for resource in chosen or RESOURCES}
        return {resource: Place.start(mark) for resource, mark in marks.items()}
    tokens = token.read(sent, "since")
    if missing := [resource.alias for resource in chosen or () if resource not in tokens.places]:
        raise InvalidRequest.of("resources", f"the token does not cover {', '.join(missing)}.")
    if tokens.views != {kept.fingerprint}:
        raise TokenExpired
    return {resource: tokens.places[resource] for resource in chosen or tokens.places}


async def _awaited(call: Call, kept: Kept, places: Places) -> Changes:
    """Return the first page that tells anything, or the last one within the time that the client waits."""
    news, size = call.services.news, call.parameters["page_size"]
    until = time.monotonic() + call.parameters["wait"]
    while True:
        page = await _page(call, kept, places, size)
        paused = time.monotonic()
        if page.entries or not page.at_end or paused >= until or news.is_over:
            return page
        places = page.places
        await news.wait(until - paused)
        # What was waited for on purpose is no latency.
        OBSERVED.get().began += time.monotonic() - paused
        call.laps.lap(Layer.TURN)


async def _page(call: Call, kept: Kept, places: Places, size: int) -> Changes:
    """Read a page within the turn and the time of any other."""
    services = call.services
    async with asyncio.timeout(services.settings.deadline_seconds), services.admission.lane(Kind.PAGE):
        return await read_page(call, kept, places, size)


OPERATIONS = (Operation("/changes", ChangesParameters(), list_changes, kind=Kind.WAIT, seconds=LONGEST_WAIT_SECONDS),)
