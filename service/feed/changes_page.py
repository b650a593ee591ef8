"""A page of changes: documents stamped after a position in each resource's sequence and published by now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.feed import hit_parser, json_lines
from service.feed.published_mark import published_mark
from service.feed.token_expired import FeedTokenExpired
from service.feed.view import header_identifier
from service.search.query import scope_clauses

if TYPE_CHECKING:
    from cluster.control_index import Mark
    from mappings.resource import Resource
    from service.feed.hit_parser import Hit
    from service.feed.token import FeedPosition, FeedPositions
    from service.feed.view import FeedView
    from service.operation import RequestContext


@dataclass
class ChangesPage:
    """The encoded changes of one page, and the positions after them."""

    positions: FeedPositions
    entries: list[bytes] = field(default_factory=list)
    at_end: bool = True


async def read_changes_page(call: RequestContext, view: FeedView, positions: FeedPositions, size: int) -> ChangesPage:
    """Return at most `size` changes after the positions, resource by resource; raise FeedTokenExpired."""
    page = ChangesPage(dict(positions))
    for resource, position in positions.items():
        mark = await current_mark(call, resource, position)
        if mark is None or position.sequence >= mark.sequence:
            continue
        if (remaining := size - len(page.entries)) <= 0:
            page.at_end = False
            break
        call.require(resource, view.required_fields(resource))
        hits = await _search(call, resource, position, mark, remaining)
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
        raise FeedTokenExpired(resource)
    return mark


def _continues(position: FeedPosition, mark: Mark | None) -> bool:
    return position.is_unread if mark is None else not position.is_expired(mark)


async def _search(call: RequestContext, resource: Resource, position: FeedPosition, mark: Mark, size: int) -> list[Hit]:
    """Search for documents stamped after a position; range and `search_after` together cost the same at any depth."""
    published = {"range": {"sequence": {"gt": position.sequence, "lte": mark.sequence}}}
    body = {
        "size": size,
        "query": {"bool": {"filter": [*scope_clauses(call.scope), published]}},
        "sort": ["sequence"],
        "search_after": [position.sequence],
        "track_total_hits": False,
    }
    return hit_parser.decode_hits(await call.search(resource, body))


def _encode_changes(view: FeedView, resource: Resource, hits: list[Hit]) -> list[bytes]:
    """Encode changes in order. Records are encoded in one batch, which costs less than one by one."""
    changes = [hit for hit in hits if not view.is_move_within_scope(hit.header)]
    reasons = [view.removal_reason(resource, hit.header) for hit in changes]
    present = [(hit.header, hit.record) for hit, reason in zip(changes, reasons, strict=True) if reason is None]
    headers, records = [header for header, _ in present], [record for _, record in present if record is not None]
    encoded = iter(json_lines.encode_records(headers, records, view.variant(resource), resource.alias))
    return [
        next(encoded)
        if reason is None
        else json_lines.encode_removal(resource.alias, header_identifier(hit.header), hit.header, reason)
        for hit, reason in zip(changes, reasons, strict=True)
    ]
