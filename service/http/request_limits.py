"""Requests that are refused before any operation sees them: invalid HTTP, or over a limit (`/docs/limits`)."""

from collections.abc import Sequence
from http import HTTPStatus
from itertools import chain

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong

from service.errors import ApiError, HttpError, InternalError

MAX_URL_BYTES = 8_192
# Of the request line. Above the limits on URLs, so that an error can report how long a URL is.
MAX_LINE_BYTES = 65_536
# Enforced by `service.http.connection`. A request has about a dozen header fields, about twenty behind proxies.
MAX_HEADERS = 64
MAX_HEADER_BYTES = 8_190
# Names and values of all header fields: what most servers and proxies accept in all.
MAX_HEAD_BYTES = 16_384
# In a query. The operation with the most parameters has about forty.
MAX_PARAMETERS = 100
# The arguments of the exception are all that distinguishes this error in aiohttp.
_TOO_MANY_HEADERS = ("Too many headers received",)
_BODYLESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_NOT_HTTP = "The request is not valid HTTP."
# What to do, by the beginning of aiohttp's message. The rest of its message repeats the request.
_ADVICE = {
    "Bad status line:\n  Expected HTTP/": (
        "The request line must be a method, a URL and HTTP/1.1. The URL must not contain a space: send it as %20."
    ),
    "Bad status line:\n  Invalid HTTP version": "Send HTTP/1.1.",
    "Invalid char": (
        "The URL has a character that URLs may not contain: percent-encode it in UTF-8, such as %C3%BC for ü."
    ),
    "Missing 'Host'": "Send a Host header, with the name that the URL begins with.",
    "Duplicate 'Host'": "Send one Host header.",
}


class MalformedRequest(ApiError):
    """The bytes on the connection are not valid HTTP."""

    status = 400
    code = "malformed-request"
    title = "Malformed request"

    def __init__(self, advice: str = "") -> None:
        """Add what to do, if it is known; repeat nothing of the request: it may contain a key."""
        super().__init__(f"{_NOT_HTTP} {advice}".rstrip())


class ExpectationRefused(HttpError):
    """The request has an `Expect` header other than `100-continue`."""

    def __init__(self) -> None:
        """Repeat nothing of the request: it may contain a key."""
        super().__init__(HTTPStatus.EXPECTATION_FAILED, "Expect can only be 100-continue: leave the header out.")


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


class TooManyParameters(ApiError):
    """The query has more parameters than any operation; parsing them would delay other requests."""

    status = 400
    code = "too-many-parameters"
    title = "Too many parameters"

    def __init__(self, sent: int) -> None:
        """Report both numbers."""
        super().__init__(f"The query has {sent} parameters; at most {MAX_PARAMETERS} are accepted.")


class HeadersTooLarge(ApiError):
    """The request has too many header fields, one that is too long, or too many bytes in all of them."""

    status = 431
    code = "headers-too-large"
    title = "Request header fields too large"

    def __init__(self) -> None:
        """Report the limits, and repeat nothing of the request: it may contain a key."""
        super().__init__(
            f"At most {MAX_HEADERS} header fields are accepted, of {MAX_HEADER_BYTES} bytes each and {MAX_HEAD_BYTES} "
            "bytes in all."
        )


def check_request(request: web.Request, max_url_bytes: int = MAX_URL_BYTES) -> None:
    """Raise ApiError for a head over its limits, and a URL that contains `#`."""
    require_bounded_target(request.raw_path, max_url_bytes)
    if sum(map(len, chain.from_iterable(request.raw_headers))) > MAX_HEAD_BYTES:
        raise HeadersTooLarge
    if "#" in request.raw_path:
        # Not part of a request target (RFC 9112, section 3.2). aiohttp would silently drop the rest.
        raise MalformedRequest("The URL must not contain #: send it as %23, or leave out the fragment.")


def require_bounded_target(target: str, max_bytes: int = MAX_URL_BYTES) -> None:
    """Raise ApiError for too many bytes or parameters in a request target, with the form of a body if it has one."""
    if len(target) > max_bytes:
        raise UrlTooLong(len(target), max_bytes)
    if (sent := target.count("&") + 1) > MAX_PARAMETERS:
        raise TooManyParameters(sent)


def require_continue(expectations: Sequence[str]) -> None:
    """Raise ExpectationRefused for values of `Expect` that are not `100-continue`, which needs no response here."""
    if [each.lower() for each in expectations] != ["100-continue"]:
        raise ExpectationRefused


def refuse_body(request: web.Request) -> None:
    """Raise BodyNotAllowed for a body where none is accepted."""
    if request.body_exists and request.method in _BODYLESS_METHODS:
        raise BodyNotAllowed


def refusal_of(exc: BaseException | None) -> ApiError:
    """Return the error for what aiohttp could not parse, or for another failure below the application."""
    if isinstance(exc, LineTooLong):
        # The second argument is the exceeded limit, of the request line or of one header.
        return UrlTooLong(f"over {MAX_LINE_BYTES}") if exc.args[1] == MAX_LINE_BYTES else HeadersTooLarge()
    if isinstance(exc, BadHttpMessage) and exc.args == _TOO_MANY_HEADERS:
        return HeadersTooLarge()
    if isinstance(exc, HttpProcessingError):
        return MalformedRequest(_advice(exc.message))
    if isinstance(exc, MalformedRequest | ExpectationRefused):
        return exc
    return InternalError("failure in the HTTP layer")


def _advice(message: str) -> str:
    return next((advice for start, advice in _ADVICE.items() if message.startswith(start)), "")
