"""Writes the rows of the audit in the background, through an alias that must exist.

The service needs the privilege `index` on the alias; `brokerage audit create` creates it and its index. Each worker
also keeps a document of its session: one that has not ended and is not renewed has lost its last rows.
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from typing import Any

from service.audit.audit_log import AuditLog, AuditRow
from service.audit.audit_rows import GAP, SESSION, SESSION_SECONDS
from service.audit.request_audit import NOT_AUDITED, RequestAudit
from service.search.bulk_writes import WriteProblem, bulk_lines, bulk_problem
from service.search.engine import SearchEngine
from service.telemetry.counters import AUDIT_FAILURES, AUDIT_ROWS

Action = tuple[dict[str, Any], dict[str, Any]]

_WRITE_INTERVAL_SECONDS = 5.0
# A worker without requests renews its session this often.
_RENEWAL_SECONDS = SESSION_SECONDS / 2
_WRITE_TIMEOUT_SECONDS = 10.0
# The longest delay of a shutdown.
_LAST_WRITE_SECONDS = 5.0
_BATCH_ROWS = 50
_CREATOR = "`brokerage audit create`"

_log = logging.getLogger("service")


class Audit:
    """The audit, off: it notes and writes nothing."""

    def open(self, key_id: str, *, is_head: bool) -> RequestAudit:  # noqa: ARG002 - recording audits use both
        """Return the audit of one request."""
        return NOT_AUDITED

    async def run(self) -> None:
        """Write periodically, forever."""

    async def close(self) -> None:
        """Write what is left."""


class WrittenAudit(Audit):
    """The audit of one worker, written to Elasticsearch."""

    def __init__(
        self, log: AuditLog, engine: SearchEngine, alias: str, every_seconds: float = _WRITE_INTERVAL_SECONDS
    ) -> None:
        """Write what `log` records to `alias` every `every_seconds` and at the end."""
        self.log = log
        self._engine = engine
        self._alias = alias
        self._every_seconds = every_seconds
        self._session = secrets.token_hex(8)
        self._started = _now()
        self._renewed_at = float("-inf")
        self._problem = WriteProblem(
            "What keys are sent is not being recorded for the audit: %s.",
            "What keys are sent is being recorded for the audit again.",
        )

    def open(self, key_id: str, *, is_head: bool) -> RequestAudit:
        """Return the audit of one request."""
        return self.log.open(key_id, is_head=is_head)

    async def run(self) -> None:
        """Write periodically, forever."""
        while True:
            await self.flush()
            await asyncio.sleep(self._every_seconds)

    async def close(self) -> None:
        """Write what is left, within a few seconds, and end the session."""
        try:
            async with asyncio.timeout(_LAST_WRITE_SECONDS):
                await self.flush(has_ended=True)
        except TimeoutError:
            _log.warning("The last rows of the audit were not written.")

    async def flush(self, *, has_ended: bool = False) -> None:
        """Write what was recorded, or keep it for the next attempt; failures are logged, not raised."""
        until = _now()
        rows = deque(self.log.take_rows())
        is_due = bool(rows) or has_ended or time.monotonic() - self._renewed_at >= _RENEWAL_SECONDS
        problem = await self._write_rows(rows) or (await self._renew(until, has_ended=has_ended) if is_due else "")
        if problem:
            AUDIT_FAILURES.inc()
        self._problem.changes_to(problem)

    async def _write_rows(self, rows: deque[AuditRow]) -> str:
        try:
            while batch := list(islice(rows, _BATCH_ROWS)):
                if problem := await self._write(({"_id": row.name}, row.document()) for row in batch):
                    return problem
                AUDIT_ROWS.inc(len(batch))
                self.log.written(rows.popleft() for _ in batch)
            return ""
        finally:
            # Also if the service ends meanwhile: they are written at the end.
            self.log.give_back(reversed(rows))

    async def _renew(self, until: int, *, has_ended: bool) -> str:
        """Say until when everything is written, and what is lost."""
        gap, problem = self.log.take_gap(), "not written"
        session = {"kind": SESSION, "session": self._session, "since": self._started, "until": until}
        actions: list[Action] = [({"_id": f"session-{self._session}"}, {**session, "has_ended": has_ended})]
        if gap.lost:
            members = {"kind": GAP, "session": self._session, **asdict(gap)}
            actions.append(({"_id": f"gap-{self._session}-{gap.since}"}, members))
        try:
            problem = await self._write(actions)
        finally:
            if problem:
                self.log.give_gap_back(gap)
            else:
                self._renewed_at = time.monotonic()
        return problem

    async def _write(self, actions: Iterable[Action]) -> str:
        return await bulk_problem(self._engine, self._alias, bulk_lines(actions), _CREATOR, _WRITE_TIMEOUT_SECONDS)


def _now() -> int:
    return int(time.time() * 1000)
