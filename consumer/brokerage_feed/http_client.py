"""Requests to the service: backoff before a retry, and bodies bounded in bytes, line length, nesting and time.

A retry waits for `Retry-After`, else exponentially with full jitter.
"""

import asyncio
import ipaddress
import random
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from brokerage_feed.errors import (
    FeedRequestRejected,
    FeedUnavailable,
    InvalidServiceUrl,
    KeyExposed,
    ResourceNotLoaded,
    ResponseTooLarge,
    TokenExpired,
    printable,
)
from brokerage_feed.limits import AddressRefused, FeedLimits, NotingConnector, guarded_connector
from brokerage_feed.messages import ProblemDetails

Message = TypeVar("Message")

_MIB = 1024**2
# By it, the operators of a service tell these consumers from others.
_USER_AGENT = f"brokerage-feed/{version('brokerage-feed')}"
# Decompressed; a bomb costs as much memory. A page has 1,000 records at most, a bucket of a digest some 15 of a
# million.
MAX_BODY_BYTES = 128 * _MIB
# A line of a snapshot is one record.
MAX_LINE_BYTES = 16 * _MIB
# Of an error: only a problem document is read, which is shorter.
MAX_ERROR_BYTES = 64 * 1024
# The longest that one body, or one line of a snapshot, may take to arrive.
MAX_BODY_SECONDS = 600.0


class MalformedResponse(Exception):
    """A response is not what the API describes."""


def decode_message(body: bytes, decoder: msgspec.json.Decoder[Message], path: str) -> Message:
    """Return the message in a body; raise MalformedResponse, which names the path, the member and the fault."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedResponse(f"{path} sent a response that is not valid: {error}") from None
    except RecursionError:
        raise MalformedResponse(f"{path} sent a response that is nested too deeply") from None


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """Return a body; raise ResponseTooLarge, or TimeoutError."""
    body = bytearray()
    async with asyncio.timeout(MAX_BODY_SECONDS):
        async for chunk in response.content.iter_any():
            body += chunk
            _require_at_most(len(body), MAX_BODY_BYTES, response.url.path, "a response")
    return bytes(body)


async def _read_error_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the first bytes of the body of an error."""
    body = bytearray()
    async with asyncio.timeout(MAX_BODY_SECONDS):
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) >= MAX_ERROR_BYTES:
                # The rest is not read: closing the connection costs less.
                response.close()
                break
    return bytes(body[:MAX_ERROR_BYTES])


async def iterate_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of a streamed response. A last line without a line break is truncated: skip it.

    Raise ResponseTooLarge, or TimeoutError if a line takes too long.
    """
    clock, rest, length = asyncio.get_running_loop().time, list[bytes](), 0
    began = clock()
    async for chunk in response.content.iter_any():
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            _require_at_most(max(map(len, lines)), MAX_LINE_BYTES, response.url.path, "a line")
            for line in lines:
                yield line
            rest, length, began = [], 0, clock()
        rest.append(last)
        length += len(last)
        _require_at_most(length, MAX_LINE_BYTES, response.url.path, "a line")
        if clock() - began > MAX_BODY_SECONDS:
            raise TimeoutError(f"a line of {response.url.path} did not arrive within {MAX_BODY_SECONDS:.0f} s")


def _require_at_most(size: int, limit: int, path: str, what: str) -> None:
    if size > limit:
        raise ResponseTooLarge(
            f"{path} sent {what} of more than {limit // _MIB} MiB, the limit of this program. Is this the service?"
        )


OnWait = Callable[[float, str], None]

_INITIAL_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.5, 60.0
# Reads may take longer than the service holds a long poll. There is no total limit, since snapshots may be large.
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=75)
_NOT_LOADED = "not-loaded"
_SUCCESSES = frozenset({HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT})
_RETRYABLE_STATUSES = frozenset({429, 500, 502, 503, 504})


class ServiceBusy(Exception):
    """The service is temporarily unavailable; `seconds` is its `Retry-After`."""

    def __init__(self, message: str, seconds: float | None) -> None:
        """Store the `Retry-After`."""
        super().__init__(message)
        self.seconds = seconds


class TruncatedResponse(Exception):
    """A response is incomplete."""


# Errors worth a retry: connection failures, timeouts, truncated responses, a busy service.
RETRYABLE = (aiohttp.ClientError, TimeoutError, MalformedResponse, ServiceBusy, TruncatedResponse)
_PROBLEM = msgspec.json.Decoder(ProblemDetails)
# A service that is down for longer says so again.
_MAX_RETRY_AFTER_SECONDS = 3600.0
# Characters of the code and the detail of a problem.
_MAX_PROBLEM_LENGTH = 500


class AttemptBackoff:
    """The failures in a row of one operation, and the delays between its attempts."""

    def __init__(self, attempts: int, on_wait: OnWait) -> None:
        """Allow a number of attempts; `on_wait` is called before each delay."""
        self._attempts, self._on_wait = attempts, on_wait
        self._failures = 0

    def reset(self) -> None:
        """Forget the failures so far, after progress."""
        self._failures = 0

    async def wait(self, error: Exception) -> None:
        """Wait before the next attempt; raise FeedUnavailable after the last one."""
        self._failures += 1
        reason = printable(str(error)) or type(error).__name__
        if self._failures >= self._attempts:
            raise FeedUnavailable(
                f"No valid response in {self._attempts} attempts. The last error: {reason}"
            ) from error
        seconds = _delay_seconds(error, self._failures)
        self._on_wait(seconds, reason)
        await sleep(seconds)


def _delay_seconds(error: Exception, failures: int) -> float:
    if isinstance(error, ServiceBusy) and error.seconds is not None:
        # Jitter, so that clients with the same Retry-After do not return at the same time.
        return error.seconds + random.random()  # noqa: S311 - not a secret
    return random.uniform(0, min(_MAX_DELAY_SECONDS, _INITIAL_DELAY_SECONDS * 2**failures))  # noqa: S311 - not a secret


class FeedHttpClient:
    """The HTTP session with a service. The key is only sent in a header."""

    def __init__(self, url: str, key: str, *, allow_http: bool = False, limits: FeedLimits | None = None) -> None:
        """Use a root URL such as https://api.example.com/v1; `/v1` may be omitted.

        Raise InvalidServiceUrl for anything else, and KeyExposed for plain HTTP to another host unless `allow_http`:
        the network is trusted.
        """
        if not _is_service_url(url):
            raise InvalidServiceUrl(f"{url} is not the URL of a service: use one such as https://api.example.com.")
        if not allow_http and _is_exposed(url):
            raise KeyExposed(
                "The URL begins with http://, so the API key would cross the network unencrypted: use https://, or set "
                "BROKERAGE_PULL_ALLOW_HTTP=true (allow_http=True in programs) if you trust the network."
            )
        self._root = url.rstrip("/").removesuffix("/v1") + "/v1/"
        self._key, self._limits = key, limits or FeedLimits()
        self._session: aiohttp.ClientSession
        self._listed_hosts: aiohttp.ClientSession  # for files on hosts of the limits; it has no key
        self._other_hosts: aiohttp.ClientSession  # for other files; it has no key
        self._opened = AsyncExitStack()

    async def open(self) -> None:
        """Open the session. Responses may use any encoding that aiohttp can decompress here."""
        service, opened = NotingConnector(), self._opened.enter_async_context
        headers = {"x-api-key": self._key, "User-Agent": _USER_AGENT}
        self._session = await opened(aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT, connector=service))
        self._listed_hosts = await opened(_keyless_session(aiohttp.TCPConnector()))
        self._other_hosts = await opened(_keyless_session(guarded_connector(service.networks)))

    async def close(self) -> None:
        """Close all sessions, even if the caller is cancelled while one of them closes."""
        await self._opened.aclose()

    @asynccontextmanager
    async def get(
        self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request; empty parameters are omitted. Raises FeedRequestRejected, TokenExpired or one of RETRYABLE.

        The status is 200, or 206 for a range. Redirects are not followed, since they would receive the key.
        """
        async with self._request(path, parameters, headers) as response:
            await _require_success(response)
            yield response

    @asynccontextmanager
    async def get_file(
        self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request for a published file as `get` does, and follow a redirect to an object store.

        Raise FeedRequestRejected for a redirect that leads elsewhere than FeedLimits allow. The store gets the range
        without `If-Range`, since its tags are others: verify the SHA-256. Whatever it refuses is requested again with a
        new redirect, because a URL expires: ServiceBusy is raised.
        """
        async with self._request(path, parameters, headers) as response:
            if response.status != HTTPStatus.TEMPORARY_REDIRECT:
                await _require_success(response)
                yield response
                return
            location, status = self._store_url(response), response.status
        given = {name: value for name, value in headers.items() if name == "Range"}
        is_listed = self._limits.names_host(location.host or "", location.port)
        session = self._listed_hosts if is_listed else self._other_hosts
        try:
            async with session.get(location, headers=given, allow_redirects=False) as stored:
                if stored.status not in _SUCCESSES:
                    raise ServiceBusy(f"{location.host} returned {stored.status} for {path}", None)
                yield stored
        except aiohttp.InvalidURL as error:
            raise _refused_redirect(status, path, location, str(error)) from None
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, AddressRefused):
                raise _refused_redirect(status, path, location, str(error.os_error)) from None
            raise

    def _request(
        self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str] | None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        given = {name: value for name, value in parameters.items() if value}
        return self._session.get(self._root + path, params=given, headers=headers, allow_redirects=False)

    def _store_url(self, response: aiohttp.ClientResponse) -> URL:
        """Return where a redirect leads; raise FeedRequestRejected if it is less protected than the service."""
        try:
            location = URL(response.headers.get("Location", ""), encoded=True)
            host, port = location.host or "", location.port
        except ValueError:
            location, host, port = URL(), "", None
        root = URL(self._root)
        is_trusted = (location.scheme, host) == (root.scheme, root.host) or self._limits.names_host(host, port)
        if host and (location.scheme == "https" or (location.scheme == "http" and is_trusted)):
            return location
        reason = "only https:// is followed to another host"
        raise _refused_redirect(response.status, response.url.path, location, reason)


def _keyless_session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    headers = {"Accept-Encoding": "identity"}
    return aiohttp.ClientSession(
        headers=headers, timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar(), connector=connector
    )


def _refused_redirect(status: int, path: str, location: URL, reason: str) -> FeedRequestRejected:
    place = f"{location.scheme or 'no'}://{location.host or ''}"
    return FeedRequestRejected(
        status,
        f"{path} redirects to {place}, which is not followed: {reason}. If the service keeps its files there, name the "
        "host in BROKERAGE_PULL_FILE_HOSTS (FeedLimits.file_hosts in programs).",
    )


async def _require_success(response: aiohttp.ClientResponse) -> None:
    if response.status not in _SUCCESSES:
        raise _error(response, await _read_error_body(response))


def _is_service_url(url: str) -> bool:
    try:
        parts = URL(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.host)


def _is_exposed(url: str) -> bool:
    """Whether a URL uses plain HTTP to a host other than this one."""
    parts = URL(url)
    try:
        is_loopback = ipaddress.ip_address(parts.host or "").is_loopback
    except ValueError:
        is_loopback = parts.host == "localhost"
    return parts.scheme == "http" and not is_loopback


def _error(response: aiohttp.ClientResponse, body: bytes) -> Exception:
    problem = _problem(body)
    message = f"{response.url.path} returned {response.status}{_problem_text(problem)}"
    if problem is not None and problem.code == _NOT_LOADED:
        return ResourceNotLoaded(message)
    if response.status == HTTPStatus.GONE:
        return TokenExpired(message)
    if response.status not in _RETRYABLE_STATUSES:
        return FeedRequestRejected(response.status, message)
    retry_after = response.headers.get("Retry-After", "")
    is_number = retry_after.isascii() and retry_after.isdecimal()
    return ServiceBusy(message, min(float(retry_after), _MAX_RETRY_AFTER_SECONDS) if is_number else None)


def _problem(body: bytes) -> ProblemDetails | None:
    try:
        return decode_message(body, _PROBLEM, "")
    except MalformedResponse:
        return None


def _problem_text(problem: ProblemDetails | None) -> str:
    if problem is None:
        return ". Is this the address of the service?"
    return printable(f" {problem.code}: {problem.detail}"[:_MAX_PROBLEM_LENGTH])
