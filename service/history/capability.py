"""`history`: the changes of prices and statuses of one listing or sold listing (decision 67)."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from aiohttp import web

from mappings import LISTING, SOLD_LISTING, Resource
from mappings.fields import FieldKind, underscore
from mappings.history import DICTIONARY_FIELDS, Past, changes_of, decode_past, dictionary_values
from service.capability import Capability
from service.errors import NotFound
from service.feed.entries import Hit, decode_hits
from service.feed.streaming import iso_timestamp
from service.http.responses import json_response
from service.operation import Operation
from service.parameters import CompanyScope, Text, UnderscoreOption
from service.request_context import UNDERSCORE_PARAMETER, RequestContext
from service.resources.responses import refuse_different_identifier
from service.search.query import by_id, page_body, was_withheld

_IDENTIFIER = "platform_listing_id"
_encode = msgspec.json.Encoder().encode
_decode_record = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class HistoryParameters(CompanyScope, UnderscoreOption):
    """Parameters of the history of one record."""

    platform_listing_id = Text("May repeat the identifier in the path.")


async def read_listing_history(call: RequestContext) -> web.Response:
    """Read the history of a listing.

    The changes of its price and its status, the newest first, and what follows from them. 404 if it does not exist or
    the key cannot read it.
    """
    return await _read(call, LISTING)


async def read_sold_listing_history(call: RequestContext) -> web.Response:
    """Read the history of a sold listing.

    The changes of its prices and its status, the newest first, and what follows from them. 404 if it does not exist or
    the key cannot read it.
    """
    return await _read(call, SOLD_LISTING)


async def _read(call: RequestContext, resource: Resource) -> web.Response:
    identifier = call.client.path[_IDENTIFIER]
    refuse_different_identifier(call, _IDENTIFIER, identifier)
    call.require(resource, ("past", "changed"))
    hits = decode_hits(await call.search(resource, page_body(call.selection(resource, (by_id(identifier),)), 1)))
    if not hits:
        call.note_absent(resource, identifier)
        raise NotFound(f"There is no {resource.title} {identifier!r}.")
    if call.sent is not None:
        call.sent.names(resource, [hits[0].header.id])
    is_underscored = call.parameters[UNDERSCORE_PARAMETER]
    return json_response([_encode(dict(_members(call, resource, hits[0], is_underscored=is_underscored)))])


def _members(
    call: RequestContext, resource: Resource, hit: Hit, *, is_underscored: bool
) -> Iterator[tuple[str, object]]:
    def spelled(values: Mapping[str, object]) -> dict[str, object]:
        return {underscore(name): value for name, value in values.items()} if is_underscored else {**values}

    header, record = hit.header, _decode_record(hit.record or b"{}")
    shown = [group for group in resource.change_groups.values() if group.guard not in call.visibility.withheld]
    present = {
        name: msgspec.json.decode(record[name]) for group in shown for name in group.remembered if name in record
    }
    past, given = decode_past(header.past), header.history
    # What a listing was while it was withheld is hidden from keys with a display licence, and since when it exists.
    if call.visibility.display and was_withheld(header.changed):
        past, given = None, None
    else:
        yield "first_seen", _time(past.first_seen if past else header.clock)
    yield from spelled({resource.identifier: header.id} | _dictionary(resource, past, given, present)).items()
    yield (
        "changes",
        [
            {
                "time": _time(change.at),
                "changed": change.group.name,
                "previous": spelled(change.previous),
                "new": spelled(change.new),
            }
            for change in changes_of(resource, past, present)
            if change.group in shown
        ],
    )


def _dictionary(
    resource: Resource, past: Past | None, given: Mapping[str, Any] | None, present: Mapping[str, Any]
) -> dict[str, object]:
    """Return all of `DICTIONARY_FIELDS`, null for what is not known."""
    known = dictionary_values(resource, past, given, present)
    values = ((field, known.get(field.name)) for field in DICTIONARY_FIELDS)
    return {field.name: _time(value) if field.kind is FieldKind.DATE_TIME else value for field, value in values}


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso_timestamp(milliseconds).decode()


CAPABILITY = Capability(
    "history",
    operations=(
        Operation("/listings/{platform_listing_id}/history", HistoryParameters(), read_listing_history),
        Operation("/sold_listings/{platform_listing_id}/history", HistoryParameters(), read_sold_listing_history),
    ),
    schemas="service.history.schemas",
    pages=("history",),
)
