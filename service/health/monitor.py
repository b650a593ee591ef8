"""The state of the live indices, read every few seconds, and the probes that report it.

Probes need no key, so they reveal no index, node, version or address; `brokerage doctor` and the log do.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web

from cluster.connection import ConnectionSettings
from mappings import RESOURCES
from service.errors import ApiError, NotElasticsearch
from service.health.checks import (
    ENGINE_SUBJECT,
    CachedMarks,
    Finding,
    FindingState,
    IndexInventory,
    missing_fields,
    never_loaded,
    refusals,
    replaced_aliases,
    run_checks,
    wrong,
)
from service.search.engine import LiveState, SearchEngine
from service.settings import ServiceSettings

ReadCheck = Callable[[], Awaitable[None]]

# Lower limit, however small BROKERAGE_FRESH_SECONDS is.
_MIN_INTERVAL_SECONDS = 0.25
# For reading what a starting replica needs: less than the usual probe timeout of one second.
_READ_TIMEOUT_SECONDS = 0.8
_PROBLEM_STATES = {FindingState.WARNING, FindingState.WRONG}

_log = logging.getLogger("service")


class HealthMonitor:
    def __init__(
        self,
        engine: SearchEngine,
        connection: ConnectionSettings,
        settings: ServiceSettings,
        read_check: ReadCheck,
        marks: CachedMarks | None = None,
    ) -> None:
        """Start without findings; `read_check` reads what the first request needs, or raises ApiError."""
        self._marks = marks
        self._engine = engine
        self._connection = connection
        self._interval_seconds = max(settings.fresh_seconds, _MIN_INTERVAL_SECONDS)
        self._outage_seconds = settings.outage_seconds
        self._read_check = read_check
        self._findings: list[Finding] = []
        self._checked_at = float("-inf")
        self._unreachable: Finding | None = None
        self._one_check = asyncio.Lock()  # an older check must not overwrite what a later one found
        self.was_ready = False

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_seconds)
            await self.check_now()
            await self.unready_reason()

    async def check_now(self) -> None:
        """Run all checks, which takes a few seconds at most; keep the last findings if Elasticsearch is unreachable."""
        async with self._one_check:
            before, _ = self.findings()
            await self._check()
            _log_changes(before, self.findings()[0])

    async def _check(self) -> None:
        try:
            self._findings = await run_checks(self._engine, self._connection, self._marks, self._update_shards)
        except (ApiError, LookupError, TypeError, ValueError, AttributeError) as failure:
            self._unreachable = unreachable_finding(failure)
        else:
            self._checked_at, self._unreachable = time.monotonic(), None
            self._engine.live = LiveState(
                refusals(self._findings, self._connection),
                never_loaded(self._findings, self._connection),
                replaced_aliases(self._findings, self._connection),
                missing_fields(self._findings, self._connection),
            )

    def _update_shards(self, inventory: IndexInventory) -> None:
        for alias in map(self._connection.alias, RESOURCES):
            with suppress(ValueError):  # a finding of its index
                self._engine.shards.update(alias, inventory.by_name[alias] or {})

    async def unready_reason(self) -> str | None:
        """Return why this process should receive no requests, or None if it is ready; takes at most a second.

        Once ready, a replica stays ready during cluster-wide problems and short outages, because otherwise all
        replicas would become unready at once. After a long outage, only this replica may be cut off.
        """
        if self.was_ready:
            silence = time.monotonic() - self._engine.last_response_at
            is_cut_off = self._unreachable is not None and silence > self._outage_seconds
            return f"{ENGINE_SUBJECT}: no response for {silence:.0f} seconds" if is_cut_off else None
        reason = self._fatal_problem() or await self._read_problem()
        self.was_ready = reason is None
        return reason

    def findings(self) -> tuple[list[Finding], float | None]:
        """Return the latest findings and their age in seconds, None before the first successful check.

        If Elasticsearch is unreachable, that is the first finding.
        """
        age = time.monotonic() - self._checked_at
        unreachable = [self._unreachable] if self._unreachable else []
        return [*unreachable, *self._findings], age if self._findings else None

    def _fatal_problem(self) -> str | None:
        fatal = (finding for finding in self.findings()[0] if finding.is_fatal)
        return next((f"{finding.subject}: {finding.problem}" for finding in fatal), None)

    async def _read_problem(self) -> str | None:
        try:
            async with asyncio.timeout(_READ_TIMEOUT_SECONDS):
                await self._read_check()
        except (ApiError, TimeoutError):
            return "keys and companies cannot be read"
        return None


def unreachable_finding(failure: Exception) -> Finding:
    """Return the finding for a failed check: Elasticsearch is unreachable, or its responses are invalid."""
    detail = str(getattr(failure, "reason", "") or f"{type(failure).__name__}: {failure}")
    is_foreign = isinstance(failure, NotElasticsearch)
    problem = "the server is not Elasticsearch" if is_foreign else "it is unreachable"
    return wrong(ENGINE_SUBJECT, problem, detail)


def _log_changes(before: list[Finding], now: list[Finding]) -> None:
    """Log each new problem, and each subject without problems again, once."""
    # Without the details, because an error names a different address each time.
    known = {(finding.subject, finding.problem) for finding in before}
    for finding in now:
        if finding.state in _PROBLEM_STATES and (finding.subject, finding.problem) not in known:
            _log.log(logging.ERROR if finding.is_fatal else logging.WARNING, "%s", finding.sentence)
    remaining = {finding.subject for finding in now if finding.state in _PROBLEM_STATES}
    for subject in sorted({finding.subject for finding in before if finding.state in _PROBLEM_STATES} - remaining):
        _log.warning("%s: healthy again", subject)


DRAINING = web.AppKey("draining", asyncio.Event)
HEALTH_MONITOR = web.AppKey("watch", HealthMonitor)

_VERBOSE = {"", "1", "true"}


async def livez(_: web.Request) -> web.Response:
    """Return 200 without using any other system: a restart would not repair Elasticsearch."""
    return web.json_response({"status": "ok"})


async def unready_reason(app: web.Application) -> str | None:
    """Return why this process should receive no requests, or None if it is ready; takes at most a second."""
    return "draining" if app[DRAINING].is_set() else await app[HEALTH_MONITOR].unready_reason()


async def readyz(request: web.Request) -> web.Response:
    """Return 200, or 503 with the reason; with `verbose`, also the finding of every check and their age."""
    reason = await unready_reason(request.app)
    body: dict[str, object] = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
    if request.query.get("verbose") in _VERBOSE:
        findings, age = request.app[HEALTH_MONITOR].findings()
        body["age_seconds"] = None if age is None else round(age, 1)
        body["checks"] = [_public_finding(finding) for finding in findings]
    return web.json_response(body, status=200 if reason is None else 503)


def _public_finding(finding: Finding) -> dict[str, str]:
    problem = {"problem": finding.problem} if finding.problem else {}
    return {"subject": finding.subject, "state": finding.state.value, **problem}


async def startupz(request: web.Request) -> web.Response:
    """Return 200 once the process has been ready, and from then on; otherwise 503 with the reason."""
    if not request.app[HEALTH_MONITOR].was_ready and (reason := await unready_reason(request.app)) is not None:
        return web.json_response({"status": "starting", "reason": reason}, status=503)
    return web.json_response({"status": "started"})
