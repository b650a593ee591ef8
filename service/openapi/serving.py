"""`/v1/openapi.json`: the document, made once in each process, for everybody."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from service.encoding.negotiation import Coding, chosen
from service.openapi.document import encoded_document
from service.packed import Packed, packed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


def describing() -> Callable[[web.Request], Awaitable[web.Response]]:
    """Make the document, which costs about as much as a hundred requests, and return the handler that answers it."""
    encoded_document()
    return _describe


async def _describe(request: web.Request) -> web.Response:
    """Answer the document, packed as the client asked; 304 to whom it is known."""
    return _packed(chosen(request.headers)).answer(request)


@cache
def _packed(coding: Coding) -> Packed:
    return packed(encoded_document(), coding, _HEADERS)
