"""`/v1/openapi.json`: the document, built and compressed once per process."""

from collections.abc import Awaitable, Callable
from functools import cache

from aiohttp import web

from service.http.negotiation import ContentCoding, negotiate_coding
from service.http.precompressed import PrecompressedBody, precompress
from service.openapi.document import encoded_document

_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


def create_document_handler(contact: str = "") -> Callable[[web.Request], Awaitable[web.Response]]:
    """Build the document, which costs about as much as a hundred requests, and return its handler.

    `contact` is empty, a mail address or an https URL.
    """
    encoded_document(contact)

    async def serve_document(request: web.Request) -> web.Response:
        return _compressed_document(contact, negotiate_coding(request.headers)).respond(request)

    return serve_document


@cache
def _compressed_document(contact: str, coding: ContentCoding) -> PrecompressedBody:
    return precompress(encoded_document(contact), coding, _HEADERS)
