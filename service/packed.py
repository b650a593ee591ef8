"""Answers that are the same for everybody: packed once in each coding, tagged, and 304 to whom they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash
from aiohttp import web

from service.conditional import unchanged
from service.encoding.compression import compress
from service.encoding.negotiation import Coding

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Packed:
    """A body in one coding, and the headers that it is answered with."""

    body: bytes
    headers: Mapping[str, str]

    def answer(self, request: web.Request) -> web.Response:
        """Return the answer, 304 where the client has it."""
        response = web.Response(body=self.body, headers=self.headers)
        return unchanged(request, response) or response


def packed(body: bytes, coding: Coding, headers: Mapping[str, str]) -> Packed:
    """Pack a body. `headers` has its type and who may keep it; the tag and what tells of the coding are added."""
    body = compress(body, coding)
    added = {"Vary": "Accept-Encoding", "ETag": f'"{xxhash.xxh3_128_hexdigest(body)}"'}
    if coding is not Coding.IDENTITY:
        added["Content-Encoding"] = coding
    return Packed(body, {**headers, **added})
