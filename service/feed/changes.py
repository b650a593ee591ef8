"""A page of changes: what was stamped behind a place in each resource's sequence and is published by now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.feed import hits, lines
from service.feed.expired import TokenExpired
from service.feed.view import identifier
from service.query import within

if TYPE_CHECKING:
    from cluster.control import Mark
    from mappings.resource import Resource
    from service.feed.hits import Hit
    from service.feed.token import Place, Places
    from service.feed.view import Kept
    from service.operation import Call


@dataclass
class Changes:
    """The encoded changes of one page, and the places behind them."""

    places: Places
    entries: list[bytes] = field(default_factory=list)
    at_end: bool = True


async def read_page(call: Call, kept: Kept, places: Places, size: int) -> Changes:
    """Return at most `size` changes behind the places, in the order of the resources; raise TokenExpired."""
    page = Changes(dict(places))
    for resource, place in places.items():
        mark = await current_mark(call, resource, place)
        if mark is None or place.sequence >= mark.sequence:
            continue
        if (room := size - len(page.entries)) <= 0:
            page.at_end = False
            break
        found = await _search(call, resource, place, mark, room)
        await _refuse_pruned(call, resource, place)
        page.entries += _told(kept, resource, found)
        is_full = len(found) == room
        reached = found[-1].head.sequence if is_full else mark.sequence
        page.places[resource] = place.moved(reached)
        page.at_end = page.at_end and reached >= mark.sequence
    return page


async def current_mark(call: Call, resource: Resource, place: Place) -> Mark | None:
    """Return the mark of a resource, at least as new as what the place was made from; raise TokenExpired."""
    marks = call.services.marks[resource]
    mark = await marks.get()
    if mark is None or place.epoch > mark.epoch:
        # Another process has read it before this one.
        await marks.renew()
        mark = marks.current
    if mark is not None and place.is_void(mark):
        raise TokenExpired(resource)
    return mark


async def _refuse_pruned(call: Call, resource: Resource, place: Place) -> None:
    """Raise TokenExpired where tombstones were pruned while they were searched for: the mark tells it before."""
    marks = call.services.marks[resource]
    await marks.renew()
    if marks.current is not None and place.is_void(marks.current):
        raise TokenExpired(resource)


async def _search(call: Call, resource: Resource, place: Place, mark: Mark, size: int) -> list[Hit]:
    """Search for what was stamped behind a place; the range and `search_after` together cost the same at any depth."""
    published = {"range": {"sequence": {"gt": place.sequence, "lte": mark.sequence}}}
    body = {
        "size": size,
        "query": {"bool": {"filter": [*within(call.scope), published]}},
        "sort": ["sequence"],
        "search_after": [place.sequence],
        "track_total_hits": False,
    }
    return hits.read(await call.search(resource, body))


def _told(kept: Kept, resource: Resource, found: list[Hit]) -> list[bytes]:
    """Return what is said of documents, in order: records in one go, since their form is the same."""
    told = [hit for hit in found if not kept.is_departure_within(hit.head)]
    reasons = [kept.leaving(resource, hit.head) for hit in told]
    stay = [(hit.head, hit.record) for hit, reason in zip(told, reasons, strict=True) if reason is None]
    heads, records = [head for head, _ in stay], [record for _, record in stay if record is not None]
    present = iter(lines.present(heads, records, kept.variant(resource), resource.alias))
    return [
        next(present) if reason is None else lines.gone(resource.alias, identifier(hit.head), hit.head, reason)
        for hit, reason in zip(told, reasons, strict=True)
    ]
