"""What was asked and what was sent: every request in order, and sums of them."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

if TYPE_CHECKING:
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


class RequestLog:
    """Thread-safe; `violations` counts requests above the rate limit."""

    def __init__(self, settings: ServerSettings) -> None:
        """Begin with nothing."""
        self._limit, self._window = settings.rate_limit, settings.rate_window_seconds
        self._visits: list[LoggedRequest] = []
        self._recent: deque[float] = deque()
        self._changed = threading.Condition()
        self.violations = 0

    def begin(self, method: str, target: str, resource: str, prefer: str) -> LoggedRequest:
        """Write down a request that came."""
        with self._changed:
            visit = LoggedRequest(len(self._visits) + 1, method, target, resource, prefer)
            self._visits.append(visit)
            self._changed.notify_all()
            return visit

    def exceeds(self) -> bool:
        """Count a request into the window; say whether it is one too many, which then is not counted."""
        if self._limit is None:
            return False
        now = monotonic()
        while self._recent and self._recent[0] <= now - self._window:
            self._recent.popleft()
        if len(self._recent) < self._limit:
            self._recent.append(now)
            return False
        self.violations += 1
        return True

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
