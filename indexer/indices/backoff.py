"""Retries while Elasticsearch is unreachable or overloaded: exponential backoff with full jitter and a deadline.

The client's own retries are disabled: they are not spaced and multiply the load that caused them.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, TypeVar

from elasticsearch import ApiError, ConnectionError, ConnectionTimeout  # noqa: A004 - the client's name for it

from indexer.errors import is_write_block

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Response = TypeVar("Response")

# Transient statuses, of a whole request or of one document.
RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
_TOO_MANY = 429
_INITIAL_SECONDS = 0.5
_MAX_SECONDS = 60.0
_random = random.SystemRandom()


class Backoff:
    """The waits of one operation; the last ends at most `seconds` after the first began."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits = 0
        self._end: float | None = None

    async def wait(self) -> bool:
        """Wait before the next attempt; return False at once when the time is up."""
        now = time.monotonic()
        self._end = now + self._seconds if self._end is None else self._end
        if now >= self._end:
            return False
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
        except (ConnectionError, ConnectionTimeout):
            if not await backoff.wait():
                raise
        except ApiError as error:
            is_lasting = error.meta.status not in RETRYABLE_STATUSES or is_write_block(error.body)
            is_lasting |= is_final is not None and is_final(error)
            if is_lasting or not await backoff.wait():
                raise


def is_memory_shortage(error: ApiError) -> bool:
    """Whether a circuit breaker rejected a request, which a smaller one may pass."""
    body = error.body if isinstance(error.body, bytes) else str(error.body).encode()
    return error.meta.status == _TOO_MANY and b"circuit_breaking_exception" in body
