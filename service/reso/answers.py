"""What answers of the RESO Web API have in common: headers, contexts, and a page of rows with its next link."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import orjson

from service.authentication import QUERY as KEY_PARAMETER
from service.errors import InvalidRequest
from service.redaction import masked_keys
from service.reso.links import collection_url, root_of
from service.reso.options import COUNT, FILTER, ORDER, SELECT, SKIP, TOKEN, TOP
from service.reso.preference import page_size, preferred
from service.reso.token import Walk, question_of, read
from service.responses import array, json_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from service.operation import Call
    from service.reso.token import Position

Row = TypeVar("Row")
# What is shown depends on the key, wherever it stands, and on the page size that is preferred.
HEADERS = {"Vary": "x-api-key, Authorization, Prefer, Accept-Encoding"}
_STARTING_ANEW = frozenset({SKIP, TOKEN, KEY_PARAMETER})


class Rows(Protocol[Row]):
    """Something that has an order and is answered page by page."""

    @property
    def name(self) -> str:
        """The name of the entity set."""

    @property
    def kinds(self) -> tuple[type, ...]:
        """The types of the values of a position."""

    async def begun(self, walk: Walk) -> Walk:
        """Return a walk that begins, with what is known at its beginning; raise ApiError."""

    async def rows(self, walk: Walk, size: int) -> list[Row]:
        """Return the first rows behind the position of a walk; raise ApiError."""

    async def skipped(self, number: int) -> Position | None:
        """Return the position behind so many rows, None where there are not as many."""

    async def count(self) -> int:
        """Return how many rows there are in all."""

    def position(self, row: Row) -> Position:
        """Return the place of a row."""

    def encoded(self, rows: Sequence[Row]) -> list[bytes]:
        """Return rows as JSON objects."""


async def page_answer(call: Call, source: Rows[Row]) -> web.Response:
    """Answer a page; raise ApiError for options that cannot be used."""
    top, walk = call.parameters[TOP], await _walk(call, source)
    room = 0 if walk is None else walk.size if top is None else max(0, min(walk.size, top - walk.seen))
    walk = walk or Walk(b"", 1)
    found, count = await asyncio.gather(_found(source, walk, room), _count(call, source, walk))
    told = found[:room]
    seen = walk.seen + len(told)
    following = None
    if len(found) > room and seen != top:
        following = msgspec.structs.replace(walk, seen=seen, count=count, position=source.position(told[-1]))
    preference = preferred(call.headers.get("Prefer", ""))
    applied = {} if preference is None else {"Preference-Applied": preference.said}
    return json_answer(_body(call, source, told, count, following), {**HEADERS, **applied})


async def _walk(call: Call, source: Rows[Row]) -> Walk | None:
    """Return the walk that a request goes on with or begins, None where it begins behind the last row."""
    sent = call.parameters
    asked, order = sent[FILTER], sent[ORDER]
    question = question_of(source.name, asked and asked.text, order)
    if (text := sent[TOKEN]) is not None:
        if sent[SKIP] is not None:
            raise InvalidRequest.of(SKIP, f"cannot be sent with {TOKEN}: follow @odata.nextLink as it was received.")
        return read(text, question, source.kinds)
    walk = await source.begun(Walk(question, page_size(preferred(call.headers.get("Prefer", "")), sent[TOP])))
    if not sent[SKIP]:
        return walk
    position = await source.skipped(sent[SKIP])
    return None if position is None else msgspec.structs.replace(walk, position=position)


async def _found(source: Rows[Row], walk: Walk, room: int) -> list[Row]:
    """Return a page of rows, and one more if there is."""
    return await source.rows(walk, room + 1) if room else []


async def _count(call: Call, source: Rows[Row], walk: Walk) -> int | None:
    """Return the count where it is wanted; the pages of a walk repeat that of the first."""
    if not call.parameters[COUNT]:
        return None
    return await source.count() if walk.count is None else walk.count


def _body(
    call: Call, source: Rows[Row], told: Sequence[Row], count: int | None, following: Walk | None
) -> list[bytes | memoryview]:
    counted = b"" if count is None else b',"@odata.count":%d' % count
    before = b"{%b%b,%b" % (context(call, source.name), counted, b'"value":')
    after = b"}" if following is None else b',"@odata.nextLink":%b}' % orjson.dumps(_next_link(call, source, following))
    return array(source.encoded(told), before, after)


def _next_link(call: Call, source: Rows[Row], following: Walk) -> str:
    options = {name: text for name, text in call.url.query.items() if name not in _STARTING_ANEW}
    return masked_keys(collection_url(call, source.name, options | {TOKEN: following.text}))


def context(call: Call, name: str, suffix: str = "") -> bytes:
    """Return the member of a JSON object that says what the rest of it is: of an entity set, or one entity of it."""
    names = call.parameters[SELECT]
    chosen = "" if names is None else f"({','.join(names)})"
    return b'"@odata.context":%b' % orjson.dumps(f"{root_of(call)}$metadata#{name}{chosen}{suffix}")


def entity_answer(call: Call, name: str, encoded: bytes) -> web.Response:
    """Answer one entity, given as a JSON object."""
    return json_answer([b"{%b,%b" % (context(call, name, "/$entity"), encoded[1:])], HEADERS)
