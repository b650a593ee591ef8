"""Whether a node is there. A frozen node takes connections and requests as ever, and never answers.

Time is counted in ticks of the event loop: while this process itself stands still, no node grows silent.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from cluster.head import FramingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

_TICK_SECONDS = 0.25
# How long nothing may come before a node is asked, how long an answer may take, and how long a failed node rests.
_PATIENCE_TICKS = 4
# One question may be lost with its connection.
_UNANSWERED = 2

_log = logging.getLogger(__name__)


class Pulse:
    """What is known of one node: the requests under way, whether it answers, whether it failed lately.

    Nothing is asked, and no time is kept, of a node that has no others beside it: there is no choice to make. Of a node
    that is well no time is kept while nothing is under way.
    """

    def __init__(self, name: str, ask: Callable[[], Awaitable[object]], drop: Callable[[], None]) -> None:
        """`ask` gets a trivial answer over a connection of its own; `drop` drops connections that wait."""
        self.others: Sequence[Pulse] = ()
        self.under_way: set[asyncio.Timeout] = set()
        self.heard = 0  # grows with whatever is received from the node, answers to `ask` included
        self.is_well = True
        self._name = name
        self._ask = ask
        self._drop = drop
        self._is_trusted = True
        self._is_resting = False
        self._known = 0  # what `heard` was at the last tick
        self._left = _PATIENCE_TICKS
        self._unanswered = 0
        self._asking: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_silent(self) -> bool:
        """Whether it has left questions unanswered."""
        return self._unanswered >= _UNANSWERED

    @property
    def reluctance(self) -> int:
        """How much any other is to be preferred: 0 not at all, 1 while it is on trial, 2 it failed, 3 it is silent."""
        if not self.is_well:
            return 3 if self.is_silent else 2
        # What comes back may fail again: a single request finds out.
        return 0 if self._is_trusted or not self.under_way else 1

    @property
    def is_lively(self) -> bool:
        """Whether it is well and no question to it is open."""
        return self.is_well and self._asking is None

    def begun(self, limit: asyncio.Timeout) -> None:
        """Take note of a request, which the node's silence ends by its limit."""
        self.under_way.add(limit)
        if self._timer is None:
            self._wait()

    def answered(self) -> None:
        """Take note that a request was answered as it should be."""
        self._is_trusted = True

    def failed(self) -> None:
        """Take note that a request failed by fault of the node: it rests for a second, and is then asked."""
        if self.others and not self._is_resting:
            self.is_well = self._is_trusted = False
            self._is_resting, self._left = True, _PATIENCE_TICKS
            if self._timer is None:
                self._wait()

    async def close(self) -> None:
        """Keep no time any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.wait([asking])

    def _wait(self) -> None:
        if self.others:
            self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        was_heard, self._known = self.heard != self._known, self.heard
        if self.is_well and not self.under_way:
            self._start_over()
            return
        if was_heard and not self._is_resting:
            self._is_back()
        else:
            self._left -= 1
            if self._left == 0:
                self._lose_patience()
        if self.is_silent and any(other.is_lively for other in self.others):
            self._give_up()
        self._wait()

    def _start_over(self) -> None:
        self._left, self._unanswered = _PATIENCE_TICKS, 0
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _is_back(self) -> None:
        if self.is_silent:
            _log.warning("Elasticsearch at %s answers again.", self._name)
        self.is_well = True
        self._start_over()

    def _lose_patience(self) -> None:
        """Ask, and once more; then the node is silent, and is asked until it answers."""
        self._left, self._is_resting = _PATIENCE_TICKS, False
        if self._asking is not None:
            self._asking.cancel()
            self._unanswered += 1
            if self._unanswered == _UNANSWERED:
                _log.warning("Elasticsearch at %s does not answer.", self._name)
                self.is_well = self._is_trusted = False
        self._asking = asyncio.get_running_loop().create_task(self._asked())

    async def _asked(self) -> None:
        with suppress(OSError, FramingError):
            await self._ask()

    def _give_up(self) -> None:
        """End the requests under way, so that they can be sent elsewhere."""
        given_up = {limit for limit in self.under_way if not limit.expired()}
        self.under_way -= given_up
        for limit in given_up:
            limit.reschedule(0)
        self._drop()
