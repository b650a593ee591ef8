"""Watches Elasticsearch from its start on: what is found decides on readiness and on which requests are refused."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from service.errors import ApiError, NotElasticsearch
from service.indices import examine
from service.soundness import ENGINE, Finding, State, refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cluster.connection import ConnectionSettings
    from service.elastic import Engine
    from service.settings import ServiceSettings

    Readable = Callable[[], Awaitable[None]]

# However fresh findings are to be: a round is a few requests.
_SHORTEST_SECONDS = 0.25
# For reading what a starting replica must be able to read: less than the second for which most probes wait.
_READ_SECONDS = 0.8
_BAD = {State.WARNING, State.WRONG}

_log = logging.getLogger("service")


class Watch:
    """The findings of the last round, how old they are, and whether this process may be sent requests."""

    def __init__(
        self, engine: Engine, connection: ConnectionSettings, settings: ServiceSettings, readable: Readable
    ) -> None:
        """Nothing is asked yet; `readable` reads what must be there before the first request, or raises ApiError."""
        self._engine = engine
        self._connection = connection
        self._seconds = max(settings.fresh_seconds, _SHORTEST_SECONDS)
        self._outage_seconds = settings.outage_seconds
        self._readable = readable
        self._findings: list[Finding] = []
        self._found_at = float("-inf")
        self._away: Finding | None = None
        self.was_ready = False

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(self._seconds)
            await self.look()
            await self.unready_reason()

    async def look(self) -> None:
        """Take one round of checks, a few seconds at most; while Elasticsearch is away the last findings stand."""
        before, _ = self.findings()
        try:
            self._findings = await examine(self._engine, self._connection)
        except (ApiError, LookupError, TypeError, ValueError, AttributeError) as failure:
            self._away = away(failure)
        else:
            self._found_at, self._away = time.monotonic(), None
            self._engine.refused = refused(self._findings, self._connection)
        _tell(before, self.findings()[0])

    async def unready_reason(self) -> str | None:
        """Return why no request should be sent here, None when they may; within a second.

        Once ready, a replica stays so whatever is wrong for the whole cluster, and through an outage that is short:
        all replicas would go at once. After a long one it may be the only one that is cut off.
        """
        if self.was_ready:
            silent = time.monotonic() - self._engine.answered_at
            is_cut_off = self._away is not None and silent > self._outage_seconds
            return f"{ENGINE}: no answer for {silent:.0f} seconds" if is_cut_off else None
        reason = self._unsound() or await self._unreadable()
        self.was_ready = reason is None
        return reason

    def findings(self) -> tuple[list[Finding], float | None]:
        """Return what was found last and its age in seconds, None before the first round that Elasticsearch answered.

        While it is away that comes first.
        """
        age = time.monotonic() - self._found_at
        away = [self._away] if self._away else []
        return [*away, *self._findings], age if self._findings else None

    def _unsound(self) -> str | None:
        wrong = (finding for finding in self.findings()[0] if finding.is_fatal)
        return next((f"{finding.subject}: {finding.problem}" for finding in wrong), None)

    async def _unreadable(self) -> str | None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                await self._readable()
        except (ApiError, TimeoutError):
            return "keys and companies cannot be read"
        return None


def away(failure: Exception) -> Finding:
    """Return that nothing can be looked at: Elasticsearch is away, or what answers makes no sense."""
    detail = str(getattr(failure, "reason", "") or f"{type(failure).__name__}: {failure}")
    problem = "what answers is not Elasticsearch" if isinstance(failure, NotElasticsearch) else "it cannot be asked"
    return Finding(subject=ENGINE, state=State.WRONG, problem=problem, detail=detail)


def _tell(before: list[Finding], now: list[Finding]) -> None:
    """Log what has become bad and what is well again, once each."""
    # Without the details: an error names another address each time.
    known = {(finding.subject, finding.problem) for finding in before}
    for finding in now:
        if finding.state in _BAD and (finding.subject, finding.problem) not in known:
            _log.log(logging.ERROR if finding.is_fatal else logging.WARNING, "%s", finding.sentence)
    bad = {finding.subject for finding in now if finding.state in _BAD}
    for subject in sorted({finding.subject for finding in before if finding.state in _BAD} - bad):
        _log.warning("%s: well again", subject)
