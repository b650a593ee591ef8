"""Static responses: compressed once per coding, with an entity tag for conditional requests."""

from collections.abc import Mapping
from dataclasses import dataclass

import xxhash
from aiohttp import web

from service.http.compression import compress
from service.http.conditional import not_modified
from service.http.negotiation import ContentCoding


@dataclass(frozen=True)
class PrecompressedBody:
    """A body in one coding, with its headers."""

    body: bytes
    headers: Mapping[str, str]

    def respond(self, request: web.Request) -> web.Response:
        """Return the response, or 304 if the client has it."""
        response = web.Response(body=self.body, headers=self.headers)
        return not_modified(request, response) or response


def precompress(body: bytes, coding: ContentCoding, headers: Mapping[str, str]) -> PrecompressedBody:
    """Compress a body; `headers` are its type and cache directives, to which tag, coding and `Vary` are added."""
    body = compress(body, coding)
    added = {"Vary": "Accept-Encoding", "ETag": f'"{xxhash.xxh3_128_hexdigest(body)}"'}
    if coding is not ContentCoding.IDENTITY:
        added["Content-Encoding"] = coding
    return PrecompressedBody(body, {**headers, **added})
