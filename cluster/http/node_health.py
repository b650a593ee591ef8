"""Health of a node. A frozen node still accepts connections and requests, but never responds.

Time is counted in ticks of the event loop, so a pause of this process does not make nodes look silent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from cluster.http.response_head import HttpProtocolError

_TICK_SECONDS = 0.25
# Silence before a probe, time limit of a probe, and rest of a failed node.
_PROBE_AFTER_TICKS = 4
# One probe may be lost with its connection.
_MAX_UNANSWERED_PROBES = 2

_log = logging.getLogger(__name__)


class NodeHealth:
    """The health of one node: its requests in flight, whether it responds, whether it failed recently.

    A single node is not monitored, since there is no alternative to it. A healthy node is monitored only while requests
    are in flight.
    """

    def __init__(self, name: str, probe: Callable[[], Awaitable[object]], close_idle: Callable[[], None]) -> None:
        """`probe` sends a trivial request over a new connection; `close_idle` closes idle connections."""
        self.others: Sequence[NodeHealth] = ()
        self.in_flight: set[asyncio.Timeout] = set()
        self.receive_count = 0  # reads from the node, responses to probes included
        self.is_healthy = True
        self._name = name
        self._probe = probe
        self._close_idle = close_idle
        self._is_trusted = True
        self._is_resting = False
        self._last_receive_count = 0  # at the last tick
        self._ticks_left = _PROBE_AFTER_TICKS
        self._unanswered = 0
        self._probe_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_silent(self) -> bool:
        """Whether the last probes got no response."""
        return self._unanswered >= _MAX_UNANSWERED_PROBES

    @property
    def penalty(self) -> int:
        """Rank of the node, lower is better: 0 healthy, 1 on trial, 2 failed, 3 silent."""
        if not self.is_healthy:
            return 3 if self.is_silent else 2
        # A recovered node may fail again: try it with a single request.
        return 0 if self._is_trusted or not self.in_flight else 1

    @property
    def is_responsive(self) -> bool:
        """Whether the node is healthy and no probe is pending."""
        return self.is_healthy and self._probe_task is None

    def request_started(self, limit: asyncio.Timeout) -> None:
        """Register a request; `limit` aborts it if the node becomes silent."""
        self.in_flight.add(limit)
        if self._timer is None:
            self._schedule_tick()

    def request_succeeded(self) -> None:
        """Register a successful request."""
        self._is_trusted = True

    def request_failed(self) -> None:
        """Register a failure of the node, which rests for a second before it is probed."""
        if self.others and not self._is_resting:
            self.is_healthy = self._is_trusted = False
            self._is_resting, self._ticks_left = True, _PROBE_AFTER_TICKS
            if self._timer is None:
                self._schedule_tick()

    async def close(self) -> None:
        """Stop monitoring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        task, self._probe_task = self._probe_task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _schedule_tick(self) -> None:
        if self.others:
            self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        has_received = self.receive_count != self._last_receive_count
        self._last_receive_count = self.receive_count
        if self.is_healthy and not self.in_flight:
            self._reset()
            return
        if has_received and not self._is_resting:
            self._recover()
        else:
            self._ticks_left -= 1
            if self._ticks_left == 0:
                self._start_probe()
        if self.is_silent and any(other.is_responsive for other in self.others):
            self._abort_requests()
        self._schedule_tick()

    def _reset(self) -> None:
        self._ticks_left, self._unanswered = _PROBE_AFTER_TICKS, 0
        if self._probe_task is not None:
            self._probe_task.cancel()
            self._probe_task = None

    def _recover(self) -> None:
        if self.is_silent:
            _log.warning("Elasticsearch at %s responds again.", self._name)
        self.is_healthy = True
        self._reset()

    def _start_probe(self) -> None:
        """Probe the node; after two probes without a response it is silent, and is probed until it responds."""
        self._ticks_left, self._is_resting = _PROBE_AFTER_TICKS, False
        if self._probe_task is not None:
            self._probe_task.cancel()
            self._unanswered += 1
            if self._unanswered == _MAX_UNANSWERED_PROBES:
                _log.warning("Elasticsearch at %s does not respond.", self._name)
                self.is_healthy = self._is_trusted = False
        self._probe_task = asyncio.get_running_loop().create_task(self._run_probe())

    async def _run_probe(self) -> None:
        with suppress(OSError, HttpProtocolError):
            await self._probe()

    def _abort_requests(self) -> None:
        """Abort the requests in flight, so that they can be sent to other nodes."""
        aborted = {limit for limit in self.in_flight if not limit.expired()}
        self.in_flight -= aborted
        for limit in aborted:
            limit.reschedule(0)
        self._close_idle()
