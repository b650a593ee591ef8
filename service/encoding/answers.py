"""The one place where an answer of an operation is tagged and packed, on its way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.conditional import entity_tag, unchanged
from service.encoding.negotiation import Coding, chosen
from service.media import GEOJSON, JSON
from service.parts import Parts

if TYPE_CHECKING:
    from aiohttp import web

    from service.encoding.packer import Packer

# A shorter answer leaves in one segment of TCP, however it is packed.
SMALLEST_BYTES = 1024
_PACKED = frozenset({JSON, GEOJSON})


async def encoded(request: web.Request, response: web.Response, packer: Packer) -> web.Response:
    """Tag an answer and pack its body as the client asked, in place; return it, or 304 where the client has it.

    Which coding it would have is known beforehand, so an answer that the client has is not packed. Plain stay bodies
    below `SMALLEST_BYTES` and other types than JSON. HEAD is packed too, although nothing of it is sent: it must tell
    the length that GET has. `Vary` stands in every answer of an operation (`service.headers`), packed or not.
    """
    body = response.body
    if not isinstance(body, Parts):
        return response
    coding = _coding(request, response, body)
    response.headers["ETag"] = entity_tag(body, coding)
    if (kept := unchanged(request, response)) is not None:
        return kept
    if coding is not Coding.IDENTITY:
        response.body = Parts([await packer.pack(body.pieces, coding)])
        response.headers["Content-Encoding"] = coding
    return response


def _coding(request: web.Request, response: web.Response, body: Parts) -> Coding:
    if (body.size or 0) < SMALLEST_BYTES or response.content_type not in _PACKED:
        return Coding.IDENTITY
    return chosen(request.headers)
