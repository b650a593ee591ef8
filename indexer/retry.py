"""Patience with an engine that is away or overloaded: exponential waits with full jitter, for a bounded time.

The client's own retries are off: they are not spaced and multiply the load that caused them.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, TypeVar

from elasticsearch import ApiError, ConnectionError, ConnectionTimeout  # noqa: A004 - the client's name for it

from indexer.errors import told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Answer = TypeVar("Answer")

# Statuses of a whole request or of one document that pass.
OVERLOADED = frozenset({429, 502, 503, 504})
_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 60.0
_random = random.SystemRandom()


class Patience:
    """The waits of one piece of work; its last is over `seconds` after its first began."""

    def __init__(self, seconds: float) -> None:
        """The time runs from the first wait on."""
        self._seconds = seconds
        self._waits = 0
        self._end: float | None = None

    async def wait(self) -> bool:
        """Wait before the next try; return False at once when there has been enough waiting."""
        now = time.monotonic()
        self._end = now + self._seconds if self._end is None else self._end
        if now >= self._end:
            return False
        longest = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2**self._waits, self._end - now)
        self._waits += 1
        await asyncio.sleep(_random.uniform(0, longest))
        return True


async def patiently(work: Callable[[], Awaitable[Answer]], seconds: float) -> Answer:
    """Do work that may be done twice, again and again while the engine is away or overloaded."""
    patience = Patience(seconds)
    while True:
        try:
            return await work()
        except (ConnectionError, ConnectionTimeout):
            if not await patience.wait():
                raise
        except ApiError as error:
            if error.meta.status not in OVERLOADED or is_blocked(error.body) or not await patience.wait():
                raise


def is_blocked(body: object) -> bool:
    """Whether an error answer says that writes are blocked, as on a full disk, which waiting does not mend.

    A block of the whole service, as while a node starts or a master is elected, passes.
    """
    error = told(body)
    if not isinstance(error, dict) or error.get("type") != "cluster_block_exception":
        return False
    return "[SERVICE_UNAVAILABLE/" not in str(error.get("reason"))
