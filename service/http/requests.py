"""Requests before any operation sees them: paths, limits, the client's address and what it accepts (`/docs/limits`)."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from http import HTTPStatus
from itertools import chain
from typing import Any, NamedTuple

from aiohttp import hdrs, web
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_urldispatcher import MatchInfoError, UrlMappingMatchInfo
from marshmallow import Schema
from multidict import MultiMapping
from yarl import URL

from service.errors import ApiError, HttpError, InternalError
from service.keys.api_key import ApiKey
from service.settings import ALLOWED_HOSTS_SETTING, IpNetwork

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


class MalformedRequest(ApiError, status=400, code="malformed-request", title="Malformed request"):
    """The bytes on the connection are not valid HTTP."""

    def __init__(self, advice: str = "") -> None:
        """Add what to do, if it is known; repeat nothing of the request: it may contain a key."""
        super().__init__(f"{_NOT_HTTP} {advice}".rstrip())


class ExpectationRefused(HttpError):
    """The request has an `Expect` header other than `100-continue`."""

    def __init__(self) -> None:
        """Repeat nothing of the request: it may contain a key."""
        super().__init__(HTTPStatus.EXPECTATION_FAILED, "Expect can only be 100-continue: leave the header out.")


class BodyNotAllowed(ApiError, status=400, code="body-refused", title="Body refused"):
    """A read-only request has a body."""

    def __init__(
        self, detail: str = "This request takes no body: send neither Content-Length above 0 nor Transfer-Encoding."
    ) -> None:
        super().__init__(detail)


class UrlTooLong(ApiError, status=414, code="url-too-long", title="URL too long"):
    """The URL exceeds the limit of its path."""

    def __init__(self, length: int | str, limit: int = MAX_URL_BYTES) -> None:
        """Report both in bytes."""
        super().__init__(f"The URL has {length} bytes; at most {limit} are accepted.")


class TooManyParameters(ApiError, status=400, code="too-many-parameters", title="Too many parameters"):
    """The query has more parameters than any operation; parsing them would delay other requests."""

    def __init__(self, sent: int) -> None:
        super().__init__(f"The query has {sent} parameters; at most {MAX_PARAMETERS} are accepted.")


class HeadersTooLarge(ApiError, status=431, code="headers-too-large", title="Request header fields too large"):
    """The request has too many header fields, one that is too long, or too many bytes in all of them."""

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
    if [expectation.lower() for expectation in expectations] != ["100-continue"]:
        raise ExpectationRefused


def refuse_body(request: web.Request) -> None:
    """Raise BodyNotAllowed for a request with a body where none is accepted."""
    if request.method in _BODYLESS_METHODS:
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


_SLASHES = re.compile(r"/{2,}")


def collapse_slashes(path: str) -> str:
    """Return the encoded path without doubled and trailing slashes."""
    return _SLASHES.sub("/", path).rstrip("/") or "/"


async def without_extra_slashes(request: web.Request, handler: Handler) -> tuple[web.Request, Handler]:
    """Resolve an unmatched path again, without its extra slashes; return the request to handle, and what handles it."""
    path = request.rel_url.raw_path
    if collapse_slashes(path) == path:
        return request, handler
    collapsed = request.clone(
        rel_url=URL.build(path=collapse_slashes(path), query_string=request.rel_url.raw_query_string, encoded=True)
    )
    match = await request.app.router.resolve(collapsed)
    match.add_app(request.app)
    collapsed._match_info = match  # noqa: SLF001 - as aiohttp's normalize_path_middleware does
    return collapsed, match.handler


# Of a header that the service negotiates by; the rest of a longer value is ignored.
_MAX_NEGOTIATED_LENGTH = 1_024


def joined_lines(headers: MultiMapping[str], name: str) -> str:
    """Return the lines of a header, joined by commas and cut to `_MAX_NEGOTIATED_LENGTH` characters."""
    return ", ".join(headers.getall(name, ()))[:_MAX_NEGOTIATED_LENGTH]


# Content negotiation: `Accept-Encoding` and `Accept` by RFC 9110, sections 12.5.3 and 12.5.1.

JSON = "application/json"
GEOJSON = "application/geo+json"

# All patterns match lower-cased headers. A weight has at most three decimals (RFC 9110, section 12.4.2).
_NAME = r"[!#$%&'*+\-.^_`|~0-9a-z]+"
_QUALITY = r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?"
_CODING = re.compile(rf"({_NAME})(?:[ \t]*;[ \t]*q=({_QUALITY}))?")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_MEDIA_RANGE = re.compile(rf"({_NAME}/{_NAME})((?:[ \t]*;[ \t]*{_NAME}=(?:{_NAME}|{_QUOTED}))*)")
_WEIGHT = re.compile(r";[ \t]*q=([^; \t]*)")
# Old names of codings (RFC 9110, section 8.4.1.3).
_CODING_ALIASES = {"x-gzip": "gzip"}
# Clients send a handful of different headers; the bounds are for a client that makes them up.
_CACHED_HEADERS = 128
# Browsers send up to ten elements. Further ones are ignored, as malformed elements are.
MAX_ELEMENTS = 32


class ContentCoding(StrEnum):
    """The codings that responses are sent in, the best first, named as in `Content-Encoding`."""

    ZSTD = "zstd"
    GZIP = "gzip"
    IDENTITY = "identity"


def _elements(value: str) -> list[str]:
    return [element.strip(" \t") for element in value.lower().split(",", MAX_ELEMENTS)[:MAX_ELEMENTS]]


@lru_cache(maxsize=_CACHED_HEADERS)
def preferred_coding(accept: str) -> ContentCoding:
    """Return the coding that a client weighs highest; of equal ones the best.

    `accept` is the value of `Accept-Encoding`, with several lines joined by commas, or `""` if none was sent: such a
    client gets the identity coding. So does a client that accepts none of ours (`identity;q=0`, `*;q=0`): the RFC lets
    a server respond 415 or ignore the header, and a readable response helps more than a refusal.

    Malformed elements are ignored. A coding that is listed twice has the lower weight. `*` covers gzip, which every
    client that sends it can read, and identity; zstd must be named. Identity is always acceptable, but unless it is
    named it ranks below every coding that is.
    """
    weights = _coding_weights(accept)
    default = weights.get("*", 0.0)
    offered = {
        ContentCoding.ZSTD: weights.get(ContentCoding.ZSTD, 0.0),
        ContentCoding.GZIP: weights.get(ContentCoding.GZIP, default),
        ContentCoding.IDENTITY: weights.get(ContentCoding.IDENTITY, default),
    }
    best = max(offered, key=lambda coding: offered[coding])
    return best if offered[best] > 0 else ContentCoding.IDENTITY


def _coding_weights(accept: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for element in _elements(accept):
        if match := _CODING.fullmatch(element):
            name, weight = _CODING_ALIASES.get(match[1], match[1]), float(match[2] or 1)
            weights[name] = min(weight, weights.get(name, 1.0))
    return weights


@lru_cache(maxsize=_CACHED_HEADERS)
def prefers(accept: str, media_type: str) -> bool:
    """Return whether a client weighs a type above JSON.

    `accept` is the value of `Accept`, with several lines joined by commas, or `""` if none was sent. A client that
    weighs both alike gets JSON, and so does one that accepts neither: a readable response helps more than a refusal.

    The most specific range that matches a type counts; a range that is listed twice has the lower weight. Malformed
    elements, parameters other than the weight, and ranges with a quoted comma are ignored.
    """
    weights: dict[str, float] = {}
    for media_range in media_ranges(accept):
        weights[media_range.media_type] = min(media_range.weight, weights.get(media_range.media_type, 1.0))
    return _media_weight(weights, media_type) > _media_weight(weights, JSON)


def _media_weight(weights: dict[str, float], media_type: str) -> float:
    family = media_type.partition("/")[0]
    return next((weights[name] for name in (media_type, f"{family}/*", "*/*") if name in weights), 0.0)


class MediaRange(NamedTuple):
    """An element of `Accept`, in lower case: parameters without the weight."""

    media_type: str
    parameters: tuple[tuple[str, str], ...]
    weight: float


def media_ranges(accept: str) -> tuple[MediaRange, ...]:
    """Return the elements of `Accept`, without malformed ones and those with a quoted comma."""
    matches = filter(None, map(_MEDIA_RANGE.fullmatch, _elements(accept)))
    weighed = ((match[1], match[2], _quality(match[2])) for match in matches)
    return tuple(MediaRange(name, _parameters(rest), weight) for name, rest, weight in weighed if weight is not None)


def _parameters(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (part.strip(" \t").partition("=") for part in text.split(";")[1:])
    return tuple((name, value.strip('"')) for name, _, value in pairs if name != "q")


def _quality(parameters: str) -> float | None:
    """Return the weight among the parameters of a range: 1 without any, None if it is malformed."""
    if not (weight := _WEIGHT.search(parameters)):
        return 1.0
    return float(weight[1]) if re.fullmatch(_QUALITY, weight[1]) else None


def negotiate_coding(headers: MultiMapping[str]) -> ContentCoding:
    """Return the coding for the client that sent these headers."""
    return preferred_coding(joined_lines(headers, "Accept-Encoding"))


# Slashes of a path without doubled ones; operations have up to three.
MAX_PATH_DEPTH = 32


class BoundedRouter(web.UrlDispatcher):
    """A router that finds nothing below `MAX_PATH_DEPTH`."""

    async def resolve(self, request: web.Request) -> UrlMappingMatchInfo:
        """Return the route of a request, or the one that responds 404 or 405."""
        if request.rel_url.raw_path.count("/") > MAX_PATH_DEPTH:
            return MatchInfoError(web.HTTPNotFound())
        return await super().resolve(request)


IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Addresses that are read from the right of `X-Forwarded-For`; chains of proxies are a handful long.
MAX_PROXIES = 16
# Providers assign at least this prefix to a customer, who can use any address within it.
_IPV6_PREFIX_BITS = 64


def is_trusted_proxy(peer: str, trusted: Sequence[IpNetwork]) -> bool:
    address = _address(peer)
    return address is not None and _is_in(address, trusted)


def client_address(request: web.BaseRequest, trusted: Sequence[IpNetwork]) -> IpAddress | None:
    """Return the address of a client; None if its connection has none, as over a Unix socket."""
    return forwarded_address(request.remote or "", request.headers.getall("X-Forwarded-For", ()), trusted)


def client_network(address: IpAddress | None) -> str:
    """Return what clients are counted by: the address, or the network of one of version 6."""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((address, _IPV6_PREFIX_BITS), strict=False))
    return str(address)


def forwarded_address(peer_text: str, lines: Sequence[str], trusted: Sequence[IpNetwork]) -> IpAddress | None:
    """Return the address of a client by the peer of its connection and the lines of `X-Forwarded-For`.

    The lines count only if the peer is trusted, and are read from the right, because only what trusted proxies appended
    is reliable: the client is the first address that is not a trusted proxy. If all are, it is the leftmost of the
    last `MAX_PROXIES`; if one of those read is malformed, it is the peer.
    """
    peer = _address(peer_text)
    if peer is None or not lines or not _is_in(peer, trusted):
        return peer
    client = peer
    for text in reversed(",".join(lines).rsplit(",", MAX_PROXIES)[-MAX_PROXIES:]):
        address = _address(text.strip())
        if address is None:
            return peer
        client = address
        if not _is_in(address, trusted):
            break
    return client


def _address(text: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    # A dual-stack socket reports IPv4 peers as IPv4-mapped addresses. A zone (`fe80::1%eth0`) is any text, and means
    # nothing outside the host that wrote it.
    return address.ipv4_mapped or ipaddress.IPv6Address(int(address))


def _is_in(address: IpAddress, networks: Sequence[IpNetwork]) -> bool:
    return any(address in network for network in networks)


_SCHEMES = frozenset({"http", "https"})
# Every row of a page of events repeats it (a name has at most 253 characters, RFC 1035, section 2.3.4).
_HOST = re.compile(r"(?:[A-Za-z0-9._~-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?", re.ASCII)


def request_origin(request: web.Request, trusted: Sequence[IpNetwork]) -> str:
    """Return the scheme and host of a request, empty if it has no valid host, so that links are relative.

    Forwarded headers count only from a trusted proxy.
    """
    host, scheme = request.headers.get("Host", ""), request.scheme
    if is_trusted_proxy(request.remote or "", trusted):
        host = _first_value(request, "X-Forwarded-Host") or host
        forwarded = _first_value(request, "X-Forwarded-Proto").lower()
        scheme = forwarded if forwarded in _SCHEMES else scheme
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else ""


def _first_value(request: web.Request, name: str) -> str:
    return request.headers.get(name, "").partition(",")[0].strip()


_REFUSED = f"The Host header must be an IP address, localhost, or one of the names in {ALLOWED_HOSTS_SETTING}.\n"


def allowed_hosts_middleware(names: Iterable[str]) -> Middleware:
    """Return the middleware that refuses requests with other names than addresses, `localhost` and `names`: 403.

    A browser that is tricked by DNS rebinding sends a name of the attacker in `Host`. It cannot send an address, or a
    name that operators have allowed.
    """
    allowed = frozenset({"localhost", *map(_normalized, names)})

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        sent = request.headers.getall(hdrs.HOST, [])
        if len(sent) != 1 or not _is_allowed(_host_name(sent[0]), allowed):
            return web.Response(status=403, text=_REFUSED)
        return await handler(request)

    return check


def _is_allowed(name: str, allowed: frozenset[str]) -> bool:
    return name in allowed or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(authority: str) -> str:
    """Return the host of `host:port`, of `[address]:port`, or of a host alone."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return _normalized(authority.rpartition(":")[0] or authority)


def _normalized(name: str) -> str:
    return name.lower().rstrip(".")


class RequestAdapter:
    """Takes every request as it is: the contract alone."""

    headers: Mapping[str, str] = {}  # of every response to an adapted request
    reads_basic = False  # whether a key may come by HTTP Basic

    def recognizes(self, request: web.BaseRequest) -> bool:  # noqa: ARG002 - for adapters
        """Return whether a request asks to be adapted, whatever its key."""
        return False

    def takes_body(self, request: web.Request) -> bool:  # noqa: ARG002
        return False

    def advice_without_key(self, request: web.Request) -> str | None:  # noqa: ARG002
        """Return what a client does that sends no key, None for the header or the query."""
        return None

    def require_basic(self, request: web.Request, key: ApiKey) -> None:
        """Raise Unauthorized if this key may not come by HTTP Basic."""

    async def adapt(self, request: web.Request, key: ApiKey, schema: Schema) -> web.Request:  # noqa: ARG002
        """Return the request with all of its parameters in the query; raise ApiError."""
        if request.body_exists:
            raise BodyNotAllowed
        return request

    def problem(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return document
