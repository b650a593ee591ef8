"""`/changes`: what has changed since a token, with long polling."""

import asyncio
import time
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from cluster.control_index import Mark
from mappings import RESOURCES
from mappings.resource import Resource
from mappings.stored_document import split_change
from service import token
from service.changes.sharing import ChangeNotifier, ChangesPage, SharedPages
from service.errors import InvalidRequest
from service.feed.entries import FeedView, Hit, decode_hits, header_identifier, published_mark
from service.feed.parameters import ChangeGroups, FeedFilters, FeedTokens, ResourceList
from service.feed.streaming import encode_difference, encode_records, encode_removal
from service.http.responses import json_array, json_response, link_header
from service.limits.admission import LARGE_PAGE_RECORDS, RequestKind
from service.operation import Operation
from service.parameters import MAX_PAGE_SIZE, WholeNumber
from service.request_context import ReadSpan, RequestContext, latest_watermark, observe
from service.search.query import scope_clauses
from service.telemetry.observation import CURRENT_OBSERVATION, Layer
from service.token import FeedPosition, FeedPositions, FeedTokenExpired

# The marks that a page is read up to, of the resources that have one.
FeedMarks = dict["Resource", "Mark"]


class ChangesPages(SharedPages[ChangesPage]):
    """The pages of changes that many consumers ask for at the same time."""


@dataclass(frozen=True)
class PageRequest:
    """Everything that determines a page: a view, positions, the marks to read up to, and a size."""

    view: FeedView
    positions: FeedPositions
    marks: FeedMarks
    size: int

    @property
    def has_changes(self) -> bool:
        """Whether a mark is ahead of its position."""
        return any(self.positions[resource].sequence < mark.sequence for resource, mark in self.marks.items())

    @property
    def identity(self) -> Hashable:
        return self.view.identity, tuple(self.positions.items()), tuple(self.marks.values()), self.size


async def request_page(call: RequestContext, view: FeedView, positions: FeedPositions, size: int) -> PageRequest:
    """Return the request for the next page of at most `size` changes; raise FeedTokenExpired."""
    marks = {resource: await current_mark(call, resource, position) for resource, position in positions.items()}
    return PageRequest(view, positions, {resource: mark for resource, mark in marks.items() if mark}, size)


async def read_changes_page(request: PageRequest) -> ChangesPage:
    """Return the changes after the positions, resource by resource; raise FeedTokenExpired."""
    page, view, call = ChangesPage(dict(request.positions)), request.view, request.view.call
    for resource, mark in request.marks.items():
        position = request.positions[resource]
        if position.sequence >= mark.sequence:
            continue
        if (remaining := request.size - len(page.entries)) <= 0:
            page.at_end = False
            break
        call.require(resource, view.required_fields(resource))
        found = await _search(view, resource, position, mark, remaining + 1)
        await _newest_mark(call, resource, position)
        hits = [hit for hit in found[:remaining] if hit.header.sequence <= mark.sequence]
        page.entries += _encode_changes(view, resource, hits, position.base)
        # A full page ends with its last change.
        is_full = len(found) > remaining == len(hits)
        reached = hits[-1].header.sequence if is_full else mark.sequence
        is_settled = reached == mark.sequence and _is_settled(found, position.base, mark)
        base = mark.sequence if is_settled and len(found) <= remaining else position.base
        page.positions[resource] = position.advanced_to(reached, mark, base)
        page.at_end = page.at_end and reached >= mark.sequence
    return page


def _is_settled(found: list[Hit], base: int, mark: Mark) -> bool:
    """Whether no document that is not published yet replaces a state that was, and that the reader has not read.

    Until then, changes are named since the same base.
    """
    unpublished = [hit.header for hit in found if hit.header.sequence > mark.sequence]
    changes = (split_change(number)[1] for header in unpublished for number in header.changed)
    return not any(base < sequence <= mark.sequence for sequence in changes)


async def current_mark(call: RequestContext, resource: Resource, position: FeedPosition) -> Mark | None:
    """Return the mark of a resource, at least as new as the position; raise FeedTokenExpired or another ApiError."""
    mark = await published_mark(call, resource)
    if not _continues(position, mark):
        # Another process may have read a newer mark than this one has cached.
        mark = await _newest_mark(call, resource, position)
    return mark


async def _newest_mark(call: RequestContext, resource: Resource, position: FeedPosition) -> Mark | None:
    """Return the mark as it is now; raise FeedTokenExpired.

    Read after a search, it shows whether tombstones were pruned meanwhile: marks are updated before the pruning.
    """
    mark = await call.services.indices[resource].mark.refreshed()
    if not _continues(position, mark):
        raise FeedTokenExpired(f"is no longer valid for {resource.alias}")
    return mark


def _continues(position: FeedPosition, mark: Mark | None) -> bool:
    return position.is_unread if mark is None else not position.is_expired(mark)


async def _search(view: FeedView, resource: Resource, position: FeedPosition, mark: Mark, size: int) -> list[Hit]:
    """Search for documents stamped after a position; range and `search_after` together cost the same at any depth.

    After the published ones come those that are not published yet.
    """
    stamped = {"range": {"sequence": {"gt": position.sequence}}}
    changed = view.changed_clauses(resource, position.base)
    body = {
        "size": size,
        "query": {"bool": {"filter": [*scope_clauses(view.call.scope), stamped, *changed]}},
        "sort": ["sequence"],
        "search_after": [position.sequence],
        "track_total_hits": False,
    }
    response = await view.call.search(resource, body, mark.sequence)
    return decode_hits(response, view.content(resource))


def _encode_changes(view: FeedView, resource: Resource, hits: list[Hit], base: int) -> list[bytes]:
    """Encode changes in order. Records are encoded in one batch, which costs less than one by one."""
    shown, found = view.groups(resource), [hit for hit in hits if not view.is_move_within_scope(hit.header)]
    changes = [(hit, view.difference(resource, shown, hit, base)) for hit in found]
    told = [(*change, view.removal_reason(resource, change[0])) for change in changes if view.is_told(change[1])]
    present = [(hit.header, hit.record) for hit, _, reason in told if reason is None]
    headers, records = [header for header, _ in present], [record for _, record in present if record is not None]
    variant = view.variant(resource)
    encoded = iter(encode_records(headers, records, variant, resource.alias))
    return [
        next(encoded)[:-1] + encode_difference(hit.header, difference, variant) + b"}"
        if reason is None
        else encode_removal(resource.alias, header_identifier(hit.header), hit.header, reason)
        for hit, difference, reason in told
    ]


MAX_WAIT_SECONDS = 30


class ChangesParameters(FeedFilters):
    """Parameters of the change feed."""

    since = FeedTokens(
        "A token, or several that cover different resources: changes after it. Absent: from the beginning."
    )
    resources = ResourceList("Resources to include, separated by commas; absent: those of the tokens, or all.")
    changed = ChangeGroups(
        "Groups of fields, separated by commas: only records that are new, removed, or changed in one of them."
    )
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
    positions = await _starting_positions(call, view)
    page = await _wait_for_changes(call, view, positions)
    watermark = latest_watermark(call, page.positions)
    span = ReadSpan(_sequences(positions), _sequences(page.positions), watermark, page.at_end)
    observe(call, "changes", page.positions, span)
    if call.sent is not None:
        call.sent.changes(page.entries, {resource.alias: at.sequence for resource, at in page.positions.items()})
    following = await call.services.tokens.seal(token.encode_token(view.fingerprint, page.positions))
    at_end = "true" if page.at_end else "false"
    body = json_array(page.entries, b'{"changes":', f',"next":"{following}","at_end":{at_end}}}'.encode())
    return json_response(body, link_header(call.client.url, {"next": {"since": following}}), records=len(page.entries))


def _sequences(positions: FeedPositions) -> str:
    return ", ".join(f"{resource.alias} {position.sequence}" for resource, position in positions.items())


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
    if not tokens.views <= view.accepted_fingerprints:
        raise FeedTokenExpired("was made for another scope or other filters")
    return {resource: tokens.positions[resource] for resource in chosen or tokens.positions}


async def _wait_for_changes(call: RequestContext, view: FeedView, positions: FeedPositions) -> ChangesPage:
    """Return the first page with a change, or an empty page when `wait` has passed."""
    notifier, size = call.services.of(ChangeNotifier), call.parameters["page_size"]
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
    """Read a page within a slot and the deadline of any other page; without changes there is nothing to read."""
    if not request.has_changes:
        return ChangesPage(request.positions)
    services = call.services
    large = RequestKind.LARGE_PAGE if request.size > LARGE_PAGE_RECORDS else RequestKind.PAGE
    limit = services.limits.admission.limits[RequestKind.LONG_POLL if call.parameters["wait"] else large]
    async with limit.slot(call.key_id), asyncio.timeout(services.settings.deadline_seconds):
        return await services.of(ChangesPages).get(request.identity, partial(read_changes_page, request))


CHANGES_OPERATIONS = (
    Operation("/changes", ChangesParameters(), list_changes, kind=RequestKind.CHANGES, extra_seconds=MAX_WAIT_SECONDS),
)
