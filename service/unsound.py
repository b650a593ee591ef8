"""What is refused before any operation is asked: no HTTP, or HTTP that no operation takes (`/docs/limits`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import ApiError
from service.reso import place

if TYPE_CHECKING:
    from aiohttp import web

LONGEST_URL_BYTES = 8_192
# Those two hold for the HTTP layer (`service.wire`); a request has a dozen fields, behind proxies a score.
MOST_HEADERS = 64
LONGEST_HEADER_BYTES = 8_190
_TAKE_NO_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


class MalformedRequest(ApiError):
    """What came over the connection is not HTTP."""

    status = 400
    code = "malformed-request"
    title = "Malformed request"

    def __init__(self) -> None:
        """Repeat nothing of the request: a key may be in it."""
        super().__init__("The request is not valid HTTP.")


class BodyRefused(ApiError):
    """A request that only reads came with a body."""

    status = 400
    code = "body-refused"
    title = "Body refused"

    def __init__(self) -> None:
        """Say how the request would be taken."""
        super().__init__("Send neither Content-Length above 0 nor Transfer-Encoding: this request takes no body.")


class UrlTooLong(ApiError):
    """The URL is longer than is taken at its path."""

    status = 414
    code = "url-too-long"
    title = "URL too long"

    def __init__(self, length: int | str, most: int = LONGEST_URL_BYTES) -> None:
        """Tell how many bytes it has."""
        super().__init__(f"The URL has {length} bytes; at most {most} are accepted.")


class HeadersTooLarge(ApiError):
    """There are more header fields than are taken, or one of them is longer."""

    status = 431
    code = "headers-too-large"
    title = "Request header fields too large"

    def __init__(self) -> None:
        """Tell the limits, and repeat nothing: a key may be in it."""
        super().__init__(f"At most {MOST_HEADERS} header fields are accepted, of {LONGEST_HEADER_BYTES} bytes each.")


def refuse_unsound(request: web.Request) -> None:
    """Raise ApiError for a URL that is too long or goes on behind `#`, and for a body where none is taken."""
    most = place.LONGEST_URL_BYTES if place.is_below(request.path) else LONGEST_URL_BYTES
    if len(request.raw_path) > most:
        raise UrlTooLong(len(request.raw_path), most)
    if "#" in request.raw_path:
        # No part of a request's target (RFC 9112, section 3.2). What stands behind it would be dropped unseen.
        raise MalformedRequest
    if request.body_exists and request.method in _TAKE_NO_BODY:
        raise BodyRefused
