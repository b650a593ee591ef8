"""Retries after the loss of a node, with a budget so that they stay rare.

Only a broken connection is retried: the retry goes to another node if there is one, and did not wait in its queue yet.
Retrying a timeout or a rejection would only add load.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from service.search.engine_failures import NodeLost
from service.telemetry.counters import RETRIES

Result = TypeVar("Result")

# Bounds of the random backoff: it spreads the retries of requests that one node's failure hit together.
_BACKOFF_SECONDS = (0.01, 0.1)
# Tokens that a request adds; a retry takes one. In the long run one request in ten may be retried.
_TOKENS_PER_REQUEST = 0.1


class RetryBudget:
    """A token bucket that limits retries."""

    def __init__(self, capacity: int, seconds: float) -> None:
        """Start with a full bucket of `capacity` tokens; both attempts together may take `seconds`.

        `capacity` is how many requests the failure of one node can hit at once: the connections to it.
        """
        self._capacity = self._tokens = float(capacity)
        self._seconds = seconds

    async def run(self, attempt: Callable[[float], Awaitable[Result]]) -> Result:
        """Return the result of `attempt`, which gets its timeout in seconds; retry it once after NodeLost."""
        self._tokens = min(self._capacity, self._tokens + _TOKENS_PER_REQUEST)
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._seconds
        try:
            return await attempt(self._seconds)
        except NodeLost:
            backoff = random.uniform(*_BACKOFF_SECONDS)  # noqa: S311 - not used for security
            if clock() + backoff >= deadline or not self._spend():
                RETRIES.labels("refused").inc()
                raise
        await asyncio.sleep(backoff)
        return await _retry(attempt, deadline - clock())

    def _spend(self) -> bool:
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


async def _retry(attempt: Callable[[float], Awaitable[Result]], seconds: float) -> Result:
    outcome = "failed"
    try:
        result = await attempt(seconds)
        outcome = "answered"
    except asyncio.CancelledError:
        outcome = "given up"
        raise
    finally:
        RETRIES.labels(outcome).inc()
    return result
