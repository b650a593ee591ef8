"""Responses of the RESO Web API: a page of rows with its next link, or one entity."""

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec
import orjson
from aiohttp import web

from service.errors import InvalidRequest
from service.http.responses import API_KEY_PARAMETER, NO_STORE, JsonBytes, json_array, json_response
from service.keys.api_key import mask_keys
from service.parameters import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from service.request_context import ReadSpan, RequestContext, latest_watermark, observe
from service.reso.annotations import annotated
from service.reso.continuation import continuation, link_contents
from service.reso.cost import Searched, charge_page
from service.reso.ordering import (
    Position,
    SkipToken,
    SortKind,
    decode_skip_token,
    encode_skip_token,
    fingerprint_query,
    open_skip_token,
)
from service.reso.protocol import (
    COUNT,
    EXPAND,
    FILTER,
    FORMAT,
    ORDER_BY,
    SELECT,
    SKIP,
    SKIP_TOKEN,
    TOP,
    next_url,
    service_root_url,
)

RowT = TypeVar("RowT")
# A response depends on the key, wherever it is sent, and on the preferred page size and formats.
RESPONSE_HEADERS = {"Vary": "x-api-key, Authorization, Prefer, Accept, Accept-Encoding"}
_PAGE_POSITION_OPTIONS = frozenset({SKIP, SKIP_TOKEN, API_KEY_PARAMETER})


_MAX_PAGE_SIZE = re.compile(r"(?:odata\.)?maxpagesize\s*=\s*\"?([0-9]{1,9})\"?", re.IGNORECASE | re.ASCII)


class PageSizePreference(NamedTuple):
    """The page size that a client prefers, and the preference as sent in `Preference-Applied`."""

    size: int
    applied: str


def parse_preference(lines: str) -> PageSizePreference | None:
    """Return the page size preference in a `Prefer` header, None if it is absent or invalid."""
    match = _MAX_PAGE_SIZE.search(lines)
    if match is None or not int(match[1]):
        return None
    size = min(int(match[1]), MAX_PAGE_SIZE)
    name = match[0].partition("=")[0].strip()
    return PageSizePreference(size, f"{name}={size}")


def effective_page_size(preference: PageSizePreference | None, top: int | None) -> int:
    """Return the number of rows per page: as preferred, else `$top`, within limits."""
    if preference is not None:
        return preference.size
    return DEFAULT_PAGE_SIZE if top is None else max(1, min(top, MAX_PAGE_SIZE))


class PageSource(Protocol[RowT]):
    """An ordered collection that is read page by page."""

    @property
    def name(self) -> str:
        """The name of the entity set."""

    @property
    def position_kinds(self) -> tuple[SortKind, ...]:
        """The types of the sort values of a position."""

    @property
    def floor_event(self) -> int:
        """The last event when a reader begins with the first one, else 0."""

    @property
    def searched(self) -> Searched:
        """What Elasticsearch is asked."""

    async def rows(self, cursor: SkipToken, size: int) -> list[RowT]:
        """Return the next rows after the position of a cursor; raise ApiError."""

    async def position_after(self, number: int) -> Position | None:
        """Return the position after the first `number` rows, None if there are fewer."""

    async def count(self) -> int:
        """Return the total number of rows."""

    def position(self, row: RowT) -> Position:
        """Return the position of a row."""

    async def encode_rows(self, rows: Sequence[RowT]) -> list[bytes]:
        """Return rows as JSON objects, which the response sends: in order, each part one or several after commas."""


async def page_response(call: RequestContext, source: PageSource[RowT]) -> web.Response:
    """Return a page of rows; raise ApiError for invalid options."""
    top = call.parameters[TOP]
    preference = parse_preference(call.client.headers.get("Prefer", ""))
    await charge_page(call, source.searched, effective_page_size(preference, top))
    cursor = await _resolve_cursor(call, source, preference)
    size = (
        0
        if cursor is None
        else cursor.page_size
        if top is None
        else max(0, min(cursor.page_size, top - cursor.rows_sent))
    )
    cursor = cursor or SkipToken(b"", 1)
    # One row more than the page shows whether there is another page.
    rows, count = await asyncio.gather(
        source.rows(cursor, size + 1) if size else _no_rows(), _count(call, source, cursor)
    )
    page = rows[:size]
    rows_sent = cursor.rows_sent + len(page)
    following, headers = None, dict(RESPONSE_HEADERS)
    _observe(call, source, cursor.rows_sent, rows_sent, is_final=len(rows) <= size or rows_sent == top)
    if preference is not None:
        headers["Preference-Applied"] = preference.applied
    options = {name: text for name, text in call.client.url.query.items() if name not in _PAGE_POSITION_OPTIONS}
    if (proved := await continuation(call, options)) is not None:
        headers.update(NO_STORE)
    if len(rows) > size and rows_sent != top:
        position = source.position(page[-1])
        cursor = msgspec.structs.replace(cursor, rows_sent=rows_sent, count=count, position=position)
        tokens = call.services.tokens
        sealed = None if proved is None else await tokens.seal(link_contents(cursor, proved))
        following = next_url(call, {**options, SKIP_TOKEN: sealed or await encode_skip_token(cursor, tokens)})
    body = await _page_body(call, source, page, count, following)
    return json_response(body, headers, call.parameters[FORMAT].content_type, records=len(page))


# A filter by one of them is that of a consumer that replicates, rather than that of a search.
_CLOCKS = ("ModificationTimestamp", "EntityEventSequence")
_SHOWN_CHARACTERS = 80


def _observe(call: RequestContext, source: PageSource[RowT], first: int, last: int, *, is_final: bool) -> None:
    """Note which rows a consumer that replicates has read. Tokens are not noted: they may replace a key."""
    condition = call.parameters[FILTER]
    text = condition.text[:_SHOWN_CHARACTERS] if condition else ""
    if first or any(name in text for name in _CLOCKS):
        resources = [resource for resource, _ in source.searched.clauses]
        began = None if first else latest_watermark(call, resources)
        observe(call, "RESO", resources, ReadSpan(f"{text} row {first}", f"row {last}", began, is_final))


async def _resolve_cursor(
    call: RequestContext, source: PageSource[RowT], preference: PageSizePreference | None
) -> SkipToken | None:
    """Return the cursor of a request, None if `$skip` is beyond the last row."""
    sent = call.parameters
    condition = sent[FILTER]
    of_entity = call.client.path.values()  # the key in a path such as `Property('…')/Media`
    fingerprint = fingerprint_query(source.name, condition and condition.text, sent[ORDER_BY], *of_entity)
    if (text := sent[SKIP_TOKEN]) is not None:
        if sent[SKIP] is not None:
            raise InvalidRequest.of(
                SKIP, f"cannot be sent with {SKIP_TOKEN}: follow @odata.nextLink exactly as received."
            )
        contents = await open_skip_token(text, call.services.tokens)
        return decode_skip_token(contents, fingerprint, source.position_kinds)
    size = effective_page_size(preference, sent[TOP])
    cursor = SkipToken(fingerprint, size, floor_event=source.floor_event)
    if not sent[SKIP]:
        return cursor
    position = await source.position_after(sent[SKIP])
    return None if position is None else msgspec.structs.replace(cursor, position=position)


async def _no_rows() -> list[RowT]:
    return []


async def _count(call: RequestContext, source: PageSource[RowT], cursor: SkipToken) -> int | None:
    """Return the count if it was requested; later pages repeat the count of the first."""
    if not call.parameters[COUNT]:
        return None
    return await source.count() if cursor.count is None else cursor.count


async def _page_body(
    call: RequestContext, source: PageSource[RowT], rows: Sequence[RowT], count: int | None, following: str | None
) -> list[JsonBytes]:
    number = b'"%d"' if call.parameters[FORMAT].is_ieee754 else b"%d"
    count_member = b"" if count is None else b'"@odata.count":' + number % count + b","
    before = b'{%b%b"value":' % (_context_member(call, source.name), count_member)
    after = b"}" if following is None else b',"@odata.nextLink":%b}' % orjson.dumps(mask_keys(following))
    return json_array(await annotated(call, source.name, await source.encode_rows(rows)), before, after)


def context(call: RequestContext, fragment: str) -> dict[str, str]:
    """Return the member `@odata.context` for a part of the metadata, none if the client wants no metadata."""
    if call.parameters[FORMAT].metadata == "none":
        return {}
    return {"@odata.context": f"{service_root_url(call)}$metadata{fragment}"}


def _context_member(call: RequestContext, name: str, suffix: str = "") -> bytes:
    """Return the context of an entity set, or with a suffix of one entity, and a comma after it."""
    expanded = {name: f"{name}({','.join(inner or ())})" for name, inner in call.parameters.get(EXPAND) or ()}
    names = [*(name for name in call.parameters[SELECT] or () if name not in expanded), *expanded.values()]
    selected = f"({','.join(names)})" if names else ""
    member = orjson.dumps(context(call, f"#{name}{selected}{suffix}"))[1:-1]
    return member and member + b","


async def entity_response(call: RequestContext, name: str, encoded: bytes) -> web.Response:
    [entity] = await annotated(call, name, [encoded])
    body = b"{%b%b" % (_context_member(call, name, "/$entity"), entity[1:])
    return json_response([body], RESPONSE_HEADERS, call.parameters[FORMAT].content_type)
