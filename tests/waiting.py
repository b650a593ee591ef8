"""Waiting for what happens elsewhere, in another task, process or server; and a clock that tests move."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

_PATIENCE_SECONDS = 60
_LOOK_EVERY_SECONDS = 0.01


def wait_until(condition: Callable[[], object]) -> None:
    """Block until the condition holds; raise TimeoutError when it never does."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(_LOOK_EVERY_SECONDS)


async def until(condition: Callable[[], object]) -> None:
    """Return once the condition holds; raise TimeoutError when it never does."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(_LOOK_EVERY_SECONDS)


async def until_true(ask: Callable[[], Awaitable[object]]) -> None:
    """Ask until the answer is yes; raise TimeoutError when it never is."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not await ask():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(_LOOK_EVERY_SECONDS)


@dataclass
class Hurry:
    """What the service takes for the time, in seconds: between two looks so much of it goes by that all is settled."""

    step: float
    now: float = 0.0

    def monotonic(self) -> float:
        """Return it."""
        self.now += self.step
        return self.now
