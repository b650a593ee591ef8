"""A page of changes: documents stamped after a position in each resource's sequence and published by now."""

from collections.abc import Hashable
from dataclasses import dataclass

from cluster.control_index import Mark
from mappings.resource import Resource
from service.feed import hit_parser, json_lines
from service.feed.encoded_page import ChangesPage
from service.feed.hit_parser import Hit
from service.feed.published_mark import published_mark
from service.feed.token import FeedPosition, FeedPositions
from service.feed.token_expired import FeedTokenExpired
from service.feed.view import FeedView, header_identifier
from service.request_context import RequestContext
from service.search.query import scope_clauses

# The marks that a page is read up to, of the resources that have one.
FeedMarks = dict["Resource", "Mark"]


@dataclass(frozen=True)
class PageRequest:
    """Everything that determines a page: a view, positions, the marks to read up to, and a size."""

    view: FeedView
    positions: FeedPositions
    marks: FeedMarks
    size: int

    @property
    def has_news(self) -> bool:
        """Whether a mark is ahead of its position."""
        return any(self.positions[resource].sequence < mark.sequence for resource, mark in self.marks.items())

    @property
    def identity(self) -> Hashable:
        """Equal for requests with the same page."""
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
        hits = await _search(view, resource, position, mark, remaining)
        await _newest_mark(call, resource, position)
        page.entries += _encode_changes(view, resource, hits)
        is_full = len(hits) == remaining
        reached = hits[-1].header.sequence if is_full else mark.sequence
        page.positions[resource] = position.advanced_to(reached, mark)
        page.at_end = page.at_end and reached >= mark.sequence
    return page


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
    mark = await call.services.marks[resource].refreshed()
    if not _continues(position, mark):
        raise FeedTokenExpired(f"is void for {resource.alias}")
    return mark


def _continues(position: FeedPosition, mark: Mark | None) -> bool:
    return position.is_unread if mark is None else not position.is_expired(mark)


async def _search(view: FeedView, resource: Resource, position: FeedPosition, mark: Mark, size: int) -> list[Hit]:
    """Search for documents stamped after a position; range and `search_after` together cost the same at any depth."""
    published = {"range": {"sequence": {"gt": position.sequence, "lte": mark.sequence}}}
    body = {
        "size": size,
        "query": {"bool": {"filter": [*scope_clauses(view.call.scope), published]}},
        "sort": ["sequence"],
        "search_after": [position.sequence],
        "track_total_hits": False,
    }
    response = await view.call.search(resource, body, mark.sequence)
    return hit_parser.decode_hits(response, view.content(resource))


def _encode_changes(view: FeedView, resource: Resource, hits: list[Hit]) -> list[bytes]:
    """Encode changes in order. Records are encoded in one batch, which costs less than one by one."""
    changes = [hit for hit in hits if not view.is_move_within_scope(hit.header)]
    reasons = [view.removal_reason(resource, hit) for hit in changes]
    present = [(hit.header, hit.record) for hit, reason in zip(changes, reasons, strict=True) if reason is None]
    headers, records = [header for header, _ in present], [record for _, record in present if record is not None]
    encoded = iter(json_lines.encode_records(headers, records, view.variant(resource), resource.alias))
    return [
        next(encoded)
        if reason is None
        else json_lines.encode_removal(resource.alias, header_identifier(hit.header), hit.header, reason)
        for hit, reason in zip(changes, reasons, strict=True)
    ]
