"""What was asked and what was sent: every request in order, and sums of them."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from tests.reso.server.dialect import RequestLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reso.server.server_settings import ServerFault, ServerSettings


@dataclass
class LoggedRequest:
    """One request; `target` is its path and query as sent. Status, bytes and rows are 0 until it is answered."""

    number: int
    method: str
    target: str
    resource: str
    prefer: str = ""
    fault: ServerFault | None = None
    status: int = 0
    bytes: int = 0
    rows: int = 0
    fields: frozenset[str] = frozenset()  # of records that were sent

    @property
    def describe(self) -> str:
        """The target, decoded."""
        return unquote_plus(self.target)


class _Window:
    """What was counted within the seconds of a limit, the present included."""

    def __init__(self, limit: RequestLimit) -> None:
        self.limit = limit
        self._recent: deque[tuple[float, int, int]] = deque()

    def add(self, now: float, *, requests: int = 0, size: int = 0) -> None:
        self._recent.append((now, requests, size))

    def allows(self, now: float) -> bool:
        while self._recent and self._recent[0][0] <= now - self.limit.seconds:
            self._recent.popleft()
        if self.limit.requests is not None and sum(each[1] for each in self._recent) >= self.limit.requests:
            return False
        return self.limit.bytes is None or sum(each[2] for each in self._recent) < self.limit.bytes


class RequestLog:
    """Thread-safe; `violations` counts requests above the rate limit."""

    def __init__(self, settings: ServerSettings) -> None:
        """Begin with nothing."""
        self._visits: list[LoggedRequest] = []
        given = RequestLimit(settings.rate_window_seconds, requests=settings.rate_limit)
        self._windows = [_Window(limit) for limit in (given, *settings.dialect.limits)]
        self.now: Callable[[], float] = monotonic
        self._changed = threading.Condition()
        self.violations = 0

    def begin(self, method: str, target: str, resource: str, prefer: str) -> LoggedRequest:
        """Write down a request that came."""
        with self._changed:
            visit = LoggedRequest(len(self._visits) + 1, method, target, resource, prefer)
            self._visits.append(visit)
            self._changed.notify_all()
            return visit

    def exceeded(self) -> RequestLimit | None:
        """Count a request into all windows; return the limit that it exceeds, if any: then it is not counted."""
        now = self.now()
        for window in self._windows:
            if not window.allows(now):
                self.violations += 1
                return window.limit
        for window in self._windows:
            window.add(now, requests=1)
        return None

    def sent(self, size: int) -> None:
        """Count the bytes of a body into all windows."""
        for window in self._windows:
            window.add(self.now(), size=size)

    @property
    def visits(self) -> list[LoggedRequest]:
        """All requests so far."""
        with self._changed:
            return list(self._visits)

    @property
    def requests(self) -> Counter[str]:
        """How many requests each resource had."""
        return Counter(visit.resource for visit in self.visits)

    @property
    def bytes(self) -> Counter[str]:
        """How many bytes of bodies were sent of each resource."""
        found: Counter[str] = Counter()
        for visit in self.visits:
            found[visit.resource] += visit.bytes
        return found

    def fields(self, resource: str) -> set[str]:
        """Return the fields of a resource that were ever sent to anybody, null or not."""
        return {field for visit in self.visits if visit.resource == resource for field in visit.fields}

    def clear(self) -> None:
        """Forget all requests and violations."""
        with self._changed:
            self._visits, self.violations = [], 0

    def wait(self, count: int, seconds: float) -> None:
        """Block until so many requests came; raise TimeoutError when they do not."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._visits) >= count, seconds):
                msg = f"{len(self._visits)} requests instead of {count}"
                raise TimeoutError(msg)
