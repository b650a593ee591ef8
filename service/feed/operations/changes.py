"""`/changes`: everything that changed since a token, deletions included (decision 12)."""

import asyncio
import time
from functools import partial

from aiohttp import web

from mappings import RESOURCES
from service.errors import InvalidRequest
from service.feed import token
from service.feed.changes_page import PageRequest, read_changes_page, request_page
from service.feed.encoded_page import ChangesPage
from service.feed.parameters import FeedFilters, FeedTokens, ResourceList
from service.feed.published_mark import published_mark
from service.feed.token import FeedPosition, FeedPositions
from service.feed.token_expired import FeedTokenExpired
from service.feed.view import FeedView
from service.http.responses import json_array, json_response, link_header
from service.limits.admission import LARGE_PAGE_RECORDS, RequestKind
from service.operation import Operation
from service.parameters.groups import MAX_PAGE_SIZE
from service.parameters.types import WholeNumber
from service.request_context import RequestContext
from service.telemetry.observation import CURRENT_OBSERVATION
from service.telemetry.timing import Layer

MAX_WAIT_SECONDS = 30


class ChangesParameters(FeedFilters):
    """Parameters of the change feed."""

    since = FeedTokens(
        "A token, or several that cover different resources: changes after it. Absent: from the beginning."
    )
    resources = ResourceList("Resources to include, separated by commas; absent: those of the tokens, or all.")
    page_size = WholeNumber("Changes per page; 200 when absent.", minimum=1, maximum=MAX_PAGE_SIZE, load_default=200)
    wait = WholeNumber(
        "Seconds to wait for a change before an empty page is returned.",
        minimum=0,
        maximum=MAX_WAIT_SECONDS,
        load_default=0,
    )


async def list_changes(call: RequestContext) -> web.Response:
    """List changes since a token.

    Changes are in order: the record, or the reason why it leaves the copy."""
    view = FeedView(call)
    page = await _wait_for_changes(call, view, await _starting_positions(call, view))
    call.audit.changes(page.entries, {resource.alias: at.sequence for resource, at in page.positions.items()})
    following = await call.services.tokens.seal(token.encode_token(view.fingerprint, page.positions))
    at_end = "true" if page.at_end else "false"
    body = json_array(page.entries, b'{"changes":', f',"next":"{following}","at_end":{at_end}}}'.encode())
    return json_response(body, link_header(call.url, {"next": {"since": following}}))


async def _starting_positions(call: RequestContext, view: FeedView) -> FeedPositions:
    """Return the positions to continue from; raise FeedTokenExpired or InvalidRequest."""
    chosen = call.parameters["resources"]
    if (sent := call.parameters["since"]) is None:
        marks = {resource: await published_mark(call, resource) for resource in chosen or RESOURCES}
        return {resource: FeedPosition.start(mark) for resource, mark in marks.items()}
    opened = [await call.services.tokens.open(text, "since") for text in sent]
    tokens = token.decode_tokens(opened, "since")
    if missing := [resource.alias for resource in chosen or () if resource not in tokens.positions]:
        raise InvalidRequest.of("resources", f"the token does not cover {', '.join(missing)}.")
    if tokens.views != {view.fingerprint}:
        raise FeedTokenExpired("was made for another scope or other filters")
    return {resource: tokens.positions[resource] for resource in chosen or tokens.positions}


async def _wait_for_changes(call: RequestContext, view: FeedView, positions: FeedPositions) -> ChangesPage:
    """Return the first page with a change, or an empty page when `wait` has passed."""
    notifier, size = call.services.news, call.parameters["page_size"]
    deadline, is_due = time.monotonic() + call.parameters["wait"], False
    while True:
        page = await _read_page(call, await request_page(call, view, positions, size))
        paused = time.monotonic()
        if page.entries or not page.at_end or is_due or paused >= deadline:
            return page
        positions = page.positions
        is_due = not await notifier.wait(positions, deadline - paused)
        # A wait that the client requested is not latency.
        CURRENT_OBSERVATION.get().started_at += time.monotonic() - paused
        call.timer.record(Layer.TURN)


async def _read_page(call: RequestContext, request: PageRequest) -> ChangesPage:
    """Read a page within a slot and the deadline of any other page; without news there is nothing to read."""
    if not request.has_news:
        return ChangesPage(request.positions)
    services = call.services
    large = RequestKind.LARGE_PAGE if request.size > LARGE_PAGE_RECORDS else RequestKind.PAGE
    lane = services.admission.lane(RequestKind.LONG_POLL if call.parameters["wait"] else large)
    async with lane.slot(call.key_id), asyncio.timeout(services.settings.deadline_seconds):
        return await services.changes_pages.get(request.identity, partial(read_changes_page, request))


OPERATIONS = (
    Operation("/changes", ChangesParameters(), list_changes, kind=RequestKind.CHANGES, extra_seconds=MAX_WAIT_SECONDS),
)
