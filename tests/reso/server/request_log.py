"""Who may read, what goes wrong with a request, and what was asked and sent: every request in order."""

import base64
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from time import monotonic
from urllib.parse import parse_qsl, unquote_plus

import orjson

from tests.reso.server.error_responses import JSON, ServerResponse, unauthorized
from tests.reso.server.server_settings import INCOMPLETE_PAGES, RequestLimit, ServerFault, ServerSettings


class Auth:
    """Every client may read, those with the one token, or those that fetched a token with an id and a secret."""

    def __init__(self, settings: ServerSettings) -> None:
        """Begin with the token of the settings, which never ends, or with none."""
        self._settings = settings
        self._left: dict[str, float] = {settings.token: float("inf")} if settings.token else {}
        self.issued = 0
        self.grants: list[str] = []  # of the tokens that were issued
        self._refresh_tokens: set[str] = set()

    def check(self, authorization: str) -> None:
        """Use up one request of a token; raise ODataError (401) for none or one that does not hold."""
        if self._settings.token is None and self._settings.client is None:
            return
        token = authorization.removeprefix("Bearer ")
        if token == authorization:
            raise unauthorized("A bearer token is required")
        if self._left.get(token, 0) <= 0:
            raise unauthorized("The token is unknown or has expired")
        self._left[token] -= 1

    def expire(self) -> None:
        self._left.clear()

    def revoke_refresh_tokens(self) -> None:
        self._refresh_tokens.clear()

    def issue(self, form: str, authorization: str) -> ServerResponse:
        """Answer a request for a token: grant type, id and secret in the form, or the latter two as Basic."""
        said, settings = dict(parse_qsl(form)), self._settings
        grant, refresh = said.get("grant_type", ""), said.get("refresh_token", "")
        basic = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        given = {(said.get("client_id"), said.get("client_secret")), (basic[0], basic[2])}
        if settings.client not in given:
            return _answer(401, {"error": "invalid_client"})
        first = "client_credentials" if settings.user is None else "password"
        if grant not in ({first, "refresh_token"} if settings.refreshes else {first}):
            return _answer(400, {"error": "unsupported_grant_type"})
        is_user = (said.get("username"), said.get("password")) == settings.user
        if (grant == "password" and not is_user) or (grant == "refresh_token" and refresh not in self._refresh_tokens):
            return _answer(400, {"error": "invalid_grant"})
        self._refresh_tokens.discard(refresh)
        self.grants.append(grant)
        self.issued += 1
        self._left[f"issued-{self.issued}"] = (
            float("inf") if settings.token_requests is None else settings.token_requests
        )
        issued = {"access_token": f"issued-{self.issued}", "token_type": "Bearer", "expires_in": settings.token_seconds}
        if not settings.refreshes:
            return _answer(200, issued)
        self._refresh_tokens.add(f"refresh-{self.issued}")
        return _answer(200, issued | {"refresh_token": f"refresh-{self.issued}"})


def _answer(status: int, body: dict[str, object]) -> ServerResponse:
    return ServerResponse(status, orjson.dumps(body), {"Content-Type": JSON, "Cache-Control": "no-store"})


@dataclass
class _PlannedFault:
    fault: ServerFault
    times: int
    resource: str | None


class FaultInjector:
    """Which fault a request meets: the ones that a test asks for first, then by chance. `rates` may be replaced."""

    def __init__(self, settings: ServerSettings) -> None:
        self.rates = settings.faults
        self._most = settings.most_faults_in_a_row
        self._chance = Random(f"faults {settings.seed}")  # noqa: S311 - faults guard nothing
        self._plans: list[_PlannedFault] = []
        self._in_a_row = 0

    def plan(self, fault: ServerFault, times: int = 1, resource: str | None = None) -> None:
        """Let the next requests meet a fault, of one resource (`Media`, `$metadata`, `oauth`) or whichever comes."""
        self._plans.append(_PlannedFault(fault, times, resource))

    def clear(self) -> None:
        self.rates, self._plans = {}, []

    @property
    def pending(self) -> int:
        return sum(plan.times for plan in self._plans)

    def next_fault(self, resource: str, *, is_collection: bool) -> ServerFault | None:
        """Return what goes wrong with a request; by chance never more than so many times in a row."""
        for plan in self._plans:
            if plan.resource in {None, resource} and (is_collection or plan.fault not in INCOMPLETE_PAGES):
                plan.times -= 1
                self._plans = [left for left in self._plans if left.times]
                return plan.fault
        fault = self._by_chance() if resource != "oauth" else None
        is_met = self._in_a_row < self._most and (is_collection or fault not in INCOMPLETE_PAGES)
        self._in_a_row = self._in_a_row + 1 if fault and is_met else 0
        return fault if is_met else None

    def _by_chance(self) -> ServerFault | None:
        drawn = self._chance.random()
        for fault, rate in self.rates.items():
            drawn -= rate
            if drawn < 0:
                return fault
        return None


@dataclass
class LoggedRequest:
    """One request; `target` is its path and query as sent. Bytes and rows are 0 until it is answered."""

    number: int
    target: str
    resource: str
    prefer: str = ""
    fault: ServerFault | None = None
    bytes: int = 0
    rows: int = 0
    fields: frozenset[str] = frozenset()  # of records that were sent

    @property
    def describe(self) -> str:
        return unquote_plus(self.target)


class _Window:
    """What was counted within the seconds of a limit, the present included."""

    def __init__(self, limit: RequestLimit) -> None:
        self.limit = limit
        self._recent: deque[tuple[float, int, int]] = deque()

    def add(self, now: float, requests: int, size: int) -> None:
        self._recent.append((now, requests, size))

    def allows(self, now: float) -> bool:
        while self._recent and self._recent[0][0] <= now - self.limit.seconds:
            self._recent.popleft()
        if self.limit.requests is not None and sum(counted[1] for counted in self._recent) >= self.limit.requests:
            return False
        return self.limit.bytes is None or sum(counted[2] for counted in self._recent) < self.limit.bytes


class RequestLog:
    """Thread-safe; `violations` counts requests above the limits of the dialect."""

    def __init__(self, settings: ServerSettings) -> None:
        self._visits: list[LoggedRequest] = []
        self._windows = [_Window(limit) for limit in settings.dialect.limits]
        self._changed = threading.Condition()
        self.now: Callable[[], float] = monotonic
        self.violations = self.running = self.most_running = 0

    def begin(self, target: str, resource: str, prefer: str) -> LoggedRequest:
        with self._changed:
            self._visits.append(visit := LoggedRequest(len(self._visits) + 1, target, resource, prefer))
            self._changed.notify_all()
            return visit

    def exceeded(self) -> RequestLimit | None:
        """Count a request into all windows; return the limit that it exceeds, if any: then it is not counted."""
        now = self.now()
        if limit := next((window.limit for window in self._windows if not window.allows(now)), None):
            self.violations += 1
            return limit
        self.sent(0, requests=1)
        return None

    def sent(self, size: int, *, requests: int = 0) -> None:
        for window in self._windows:
            window.add(self.now(), requests, size)

    @property
    def visits(self) -> list[LoggedRequest]:
        with self._changed:
            return list(self._visits)

    @property
    def requests(self) -> Counter[str]:
        return Counter(visit.resource for visit in self.visits)

    def fields(self, resource: str) -> set[str]:
        """Return the fields of a resource that were ever sent to anybody, null or not."""
        return {field for visit in self.visits if visit.resource == resource for field in visit.fields}

    def clear(self) -> None:
        with self._changed:
            self._visits, self.violations = [], 0

    def wait(self, count: int, seconds: float) -> None:
        """Block until so many requests came; raise TimeoutError when they do not."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._visits) >= count, seconds):
                raise TimeoutError(f"{len(self._visits)} requests instead of {count}")
