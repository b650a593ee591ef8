"""The one place where an answer of an operation is packed, on its way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.encoding.negotiation import Coding, choose
from service.parts import Parts

if TYPE_CHECKING:
    from aiohttp import web

    from service.encoding.packer import Packer

# A shorter answer leaves in one segment of TCP, however it is packed.
SMALLEST_BYTES = 1024
_JSON = "application/json"


async def encoded(request: web.Request, response: web.Response, packer: Packer) -> web.Response:
    """Pack the body of an answer as the client asked, in place, and return the answer.

    Left alone are bodies below `SMALLEST_BYTES` and other types than JSON, problem documents among them. HEAD is
    packed too, although nothing of it is sent: it must tell the length that GET has. `Vary` stands in every answer of
    an operation (`service.responses`), packed or not. A strong `ETag` must differ from coding to coding: its bytes do.
    """
    body = response.body
    if not isinstance(body, Parts) or (body.size or 0) < SMALLEST_BYTES or response.content_type != _JSON:
        return response
    coding = choose(", ".join(request.headers.getall("Accept-Encoding", ())))
    if coding is not Coding.IDENTITY:
        response.body = Parts([await packer.pack(body.pieces, coding)])
        response.headers["Content-Encoding"] = coding
    return response
