"""Requests that are refused before any operation sees them: invalid HTTP, or over a limit (`/docs/limits`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import ApiError

if TYPE_CHECKING:
    from aiohttp import web

MAX_URL_BYTES = 8_192
# Enforced by `service.http.connection`. A request has about a dozen header fields, about twenty behind proxies.
MAX_HEADERS = 64
MAX_HEADER_BYTES = 8_190
_BODYLESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class MalformedRequest(ApiError):
    """The bytes on the connection are not valid HTTP."""

    status = 400
    code = "malformed-request"
    title = "Malformed request"

    def __init__(self) -> None:
        """Repeat nothing of the request: it may contain a key."""
        super().__init__("The request is not valid HTTP.")


class BodyNotAllowed(ApiError):
    """A read-only request has a body."""

    status = 400
    code = "body-refused"
    title = "Body refused"

    def __init__(self) -> None:
        """Name the headers that announce a body."""
        super().__init__("This request takes no body: send neither Content-Length above 0 nor Transfer-Encoding.")


class UrlTooLong(ApiError):
    """The URL exceeds the limit of its path."""

    status = 414
    code = "url-too-long"
    title = "URL too long"

    def __init__(self, length: int | str, limit: int = MAX_URL_BYTES) -> None:
        """Report both in bytes."""
        super().__init__(f"The URL has {length} bytes; at most {limit} are accepted.")


class HeadersTooLarge(ApiError):
    """The request has too many header fields, or one that is too long."""

    status = 431
    code = "headers-too-large"
    title = "Request header fields too large"

    def __init__(self) -> None:
        """Report the limits, and repeat nothing of the request: it may contain a key."""
        super().__init__(f"At most {MAX_HEADERS} header fields are accepted, of {MAX_HEADER_BYTES} bytes each.")


def check_request(request: web.Request, max_url_bytes: int = MAX_URL_BYTES) -> None:
    """Raise ApiError for a URL that is too long or contains `#`, and for a body where none is accepted."""
    if len(request.raw_path) > max_url_bytes:
        raise UrlTooLong(len(request.raw_path), max_url_bytes)
    if "#" in request.raw_path:
        # Not part of a request target (RFC 9112, section 3.2). aiohttp would silently drop the rest.
        raise MalformedRequest
    if request.body_exists and request.method in _BODYLESS_METHODS:
        raise BodyNotAllowed
