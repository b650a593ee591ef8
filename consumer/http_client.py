"""Requests to the service, and the backoff before a retry: `Retry-After`, else exponential with full jitter."""

from __future__ import annotations

import random
from asyncio import sleep
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from consumer.errors import FeedRequestRejected, FeedUnavailable, ResourceNotLoaded, TokenExpired
from consumer.messages import ProblemDetails

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    OnWait = Callable[[float, str], None]

_INITIAL_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.5, 60.0
# Reads may take longer than the service holds a long poll. There is no total limit, since snapshots may be large.
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=75)
_NOT_LOADED = "not-loaded"
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
RETRYABLE = (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, ServiceBusy, TruncatedResponse)


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
        reason = str(error) or type(error).__name__
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

    def __init__(self, url: str, key: str) -> None:
        """Use a root URL such as https://api.example.com/v1; `/v1` may be omitted."""
        self._root = url.rstrip("/").removesuffix("/v1") + "/v1/"
        self._key = key
        self._session: aiohttp.ClientSession

    async def open(self) -> None:
        """Open the session. Responses may use any encoding that aiohttp can decompress here."""
        self._session = aiohttp.ClientSession(headers={"x-api-key": self._key}, timeout=_TIMEOUT)

    async def close(self) -> None:
        """Close the session."""
        await self._session.close()

    @asynccontextmanager
    async def get(self, path: str, parameters: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request; empty parameters are omitted. Raises FeedRequestRejected, TokenExpired or one of RETRYABLE.

        Redirects are not followed, since they would receive the key.
        """
        given = {name: value for name, value in parameters.items() if value}
        async with self._session.get(self._root + path, params=given, allow_redirects=False) as response:
            if response.status != HTTPStatus.OK:
                raise _error(response, await response.read())
            yield response


def _error(response: aiohttp.ClientResponse, body: bytes) -> Exception:
    problem = _problem_text(body)
    message = f"{response.url.path} returned {response.status}{problem}"
    if problem.startswith(f" {_NOT_LOADED}:"):
        return ResourceNotLoaded(message)
    if response.status == HTTPStatus.GONE:
        return TokenExpired(message)
    if response.status not in _RETRYABLE_STATUSES:
        return FeedRequestRejected(response.status, message)
    retry_after = response.headers.get("Retry-After", "")
    return ServiceBusy(message, float(retry_after) if retry_after.isdecimal() else None)


def _problem_text(body: bytes) -> str:
    try:
        problem = msgspec.json.decode(body, type=ProblemDetails)
    except msgspec.DecodeError:
        return ". Is this the address of the service?"
    return f" {problem.code}: {problem.detail}"


async def iterate_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of a streamed response, of any length. A last line without a line break is truncated: skip it."""
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
