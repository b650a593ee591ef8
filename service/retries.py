"""A second attempt for what a lost node has cost, as long as losses are rare.

Only a broken connection is worth another attempt: it goes to another node, where there is one, and finds no queue that
it has stood in before. What timed out or was refused for lack of room would only be made worse.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

from service.failures import NodeLost
from service.metrics import RETRIES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Answer = TypeVar("Answer")

# Seconds before the second attempt, a random number between these: those that one node's end has hit come apart.
_PAUSE_SECONDS = (0.01, 0.1)
# Tokens that a request puts in; a second attempt takes a whole one. In the long run one request of ten is repeated.
_EARNED = 0.1


class Retries:
    """Makes a second attempt while its budget lasts."""

    def __init__(self, capacity: int, seconds: float) -> None:
        """Begin with `capacity` tokens, and hold no more; both attempts together may take so many seconds.

        `capacity` is how many requests the end of one node can hit at once: as many as have a connection to it.
        """
        self._capacity = self._tokens = float(capacity)
        self._seconds = seconds

    async def run(self, attempt: Callable[[float], Awaitable[Answer]]) -> Answer:
        """Return what an attempt returns, which is given the seconds that it may take; repeat it after NodeLost."""
        self._tokens = min(self._capacity, self._tokens + _EARNED)
        clock = asyncio.get_running_loop().time
        ends = clock() + self._seconds
        try:
            return await attempt(self._seconds)
        except NodeLost:
            pause = random.uniform(*_PAUSE_SECONDS)  # noqa: S311 - nothing secret depends on it
            if clock() + pause >= ends or not self._spend():
                RETRIES.labels("refused").inc()
                raise
        await asyncio.sleep(pause)
        return await _again(attempt, ends - clock())

    def _spend(self) -> bool:
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


async def _again(attempt: Callable[[float], Awaitable[Answer]], seconds: float) -> Answer:
    outcome = "failed"
    try:
        answer = await attempt(seconds)
        outcome = "answered"
    except asyncio.CancelledError:
        outcome = "given up"
        raise
    finally:
        RETRIES.labels(outcome).inc()
    return answer
