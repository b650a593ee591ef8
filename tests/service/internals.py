"""What tests set within the service, such as how long it waits or what time it is, and what they count there.

Each is named here alone, so that a constant that moves changes one line.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from service.services import SERVICES

_PLACES = {
    "admission_log_seconds": "service.limits.admission._LOG_INTERVAL_SECONDS",
    "admission_time": "service.limits.admission.time",
    "audit_write_timeout": "service.audit.reads._WRITE_TIMEOUT_SECONDS",
    "cache_time": "service.search.cached_value.time",
    "check_timeout": "service.health.checks._REQUEST_TIMEOUT_SECONDS",
    "document_set_page": "service.search.shared_state._PAGE_SIZE",
    "document_set_reread": "service.search.shared_state._REREAD",
    "head_timeout": "service.http.connection._HEAD_TIMEOUT_SECONDS",
    "key_renewal_seconds": "service.keys.ring._RENEWAL_INTERVAL_SECONDS",
    "key_use_write_timeout": "service.keys.ring._WRITE_TIMEOUT_SECONDS",
    "key_uses_written_at_once": "service.keys.ring._WRITTEN_AT_ONCE",
    "monitor_time": "service.health.monitor.time",
    "observation_time": "service.telemetry.observation.time",
    "query_time": "service.search.query.time",
    "rates_time": "service.limits.rates.time",
    "readiness_timeout": "service.health.monitor._READ_TIMEOUT_SECONDS",
    "redis_connect_timeout": "service.redis.buckets._CONNECT_TIMEOUT_SECONDS",
    "redis_response_timeout": "service.redis.buckets._RESPONSE_TIMEOUT_SECONDS",
    "refusals_longest_seconds": "service.limits.rates._LONGEST_SECONDS",
    "refusals_most_waiting": "service.limits.rates._MOST_WAITING",
    "retry_backoff_seconds": "service.search.engine._BACKOFF_SECONDS",
    "send_time": "service.http.send_monitor.time",
    "slow_read_seconds": "service.search.engine._SLOW_READ_SECONDS",
}


class Internals:
    """Sets internals; all are undone at the end of the test."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __call__(self, **values: object) -> None:
        for name, value in values.items():
            self._patch.setattr(_PLACES[name], value)


@contextmanager
def internals_set(**values: object) -> Iterator[None]:
    """Set some for a while: an example of hypothesis, for which fixtures last too long."""
    with pytest.MonkeyPatch.context() as patch:
        Internals(patch)(**values)
        yield


@dataclass
class Clock:
    """A clock, in seconds, that only a test moves; with a step, each look at it does as well."""

    now: float = 0.0
    step: float = 0.0

    def monotonic(self) -> float:
        self.now += self.step
        return self.now

    time = perf_counter = monotonic

    def monotonic_ns(self) -> int:
        return round(self.monotonic() * 1e9)


def metric(name: str, **labels: str) -> float:
    """Return the value of a metric of this process."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def shared_searches(app: web.Application, alias: str = "") -> list[int]:
    """Return how many requests wait for each running search, of one alias or of all, in ascending order."""
    tasks: Any = app[SERVICES].engine._shared_searches._tasks
    return sorted(task.waiters for (of, *_), task in tasks.items() if alias in {"", of})


def batched_reads(app: web.Application) -> list[int]:
    """Return how many requests wait for each group of reads by identifier."""
    queues: Any = app[SERVICES].engine.batches._queues
    return [queue.current.waiters if queue.current else 0 for queue in queues.values()]
