"""Retries while Elasticsearch is unreachable or overloaded: exponential backoff with full jitter and a deadline.

The client's own retries are disabled: they are not spaced and multiply the load that caused them.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from elasticsearch import (
    ApiError,
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    TransportError,
)

from indexer.errors import is_write_block, translated

Response = TypeVar("Response")

# Transient statuses, of a whole request or of one document.
RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
_TOO_MANY = 429
_INITIAL_SECONDS = 0.5
_MAX_SECONDS = 60.0
# Waits that are not worth a warning, together one or two seconds.
_SILENT_WAITS = 3
# Between two warnings of a process, however many operations wait.
_WARNING_SECONDS = 60.0
_random = random.SystemRandom()
_log = logging.getLogger("indexer")


class _Warnings:
    """Says that a process waits for Elasticsearch, and why: otherwise minutes would pass in silence."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def say(self, error: Exception, seconds: float) -> None:
        if time.monotonic() - self._said_at >= _WARNING_SECONDS:
            self._said_at = time.monotonic()
            reason = translated(error) if isinstance(error, ApiError | TransportError) else error
            _log.warning("%s Trying again for up to %.0f s.", reason, seconds)


_warnings = _Warnings()


class Backoff:
    """The waits of one operation; the last ends at most `seconds` after the first began."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits = 0
        self._end: float | None = None

    async def wait(self, error: Exception) -> bool:
        """Wait before the next attempt after an error; return False at once when the time is up."""
        now = time.monotonic()
        self._end = now + self._seconds if self._end is None else self._end
        if now >= self._end:
            return False
        if self._waits >= _SILENT_WAITS:
            _warnings.say(error, self._end - now)
        longest = min(_MAX_SECONDS, _INITIAL_SECONDS * 2**self._waits, self._end - now)
        self._waits += 1
        await asyncio.sleep(_random.uniform(0, longest))
        return True


async def retry(
    work: Callable[[], Awaitable[Response]], seconds: float, is_final: Callable[[ApiError], bool] | None = None
) -> Response:
    """Call an idempotent operation, retrying for up to `seconds` while Elasticsearch is unreachable or overloaded.

    An error for which `is_final` is true is raised at once.
    """
    backoff = Backoff(seconds)
    while True:
        try:
            return await work()
        except (ConnectionError, ConnectionTimeout) as error:
            if not await backoff.wait(error):
                raise
        except ApiError as error:
            is_lasting = error.meta.status not in RETRYABLE_STATUSES or is_write_block(error.body)
            is_lasting |= is_final is not None and is_final(error)
            if is_lasting or not await backoff.wait(error):
                raise


def is_memory_shortage(error: ApiError) -> bool:
    """Whether a circuit breaker rejected a request, which a smaller one may pass."""
    body = error.body if isinstance(error.body, bytes) else str(error.body).encode()
    return error.meta.status == _TOO_MANY and b"circuit_breaking_exception" in body
