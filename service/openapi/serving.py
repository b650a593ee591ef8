"""`/v1/openapi.json`: the document, made once in each process, for everybody."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import xxhash
from aiohttp import ETag, web

from service.encoding.compression import compress
from service.encoding.negotiation import Coding, choose
from service.openapi.document import encoded_document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def describing() -> Callable[[web.Request], Awaitable[web.Response]]:
    """Make the document, which costs about as much as a hundred requests, and return the handler that answers it."""
    encoded_document()
    return _describe


async def _describe(request: web.Request) -> web.Response:
    """Answer the document, packed as the client asked; 304 to whom it is known."""
    coding = choose(", ".join(request.headers.getall("Accept-Encoding", ())))
    body, tag = _packed(coding)
    known = request.if_none_match or ()
    headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    if any(sent.value in {tag, "*"} for sent in known):
        response = web.Response(status=304, headers=headers)
    else:
        response = web.Response(body=body, headers=headers, content_type="application/json")
        if coding is not Coding.IDENTITY:
            response.headers["Content-Encoding"] = coding
    response.etag = ETag(tag)
    return response


@cache
def _packed(coding: Coding) -> tuple[bytes, str]:
    body = compress(encoded_document(), coding)
    return body, xxhash.xxh3_128_hexdigest(body)
