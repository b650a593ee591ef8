"""The rows of the audit that are not written yet: packed outside of requests, in bounded memory.

What does not fit is counted as lost; the count is written as soon as possible, and `brokerage audit who` reports it.
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from service.audit.audit_rows import SENT, SentPage, encode_page
from service.audit.request_audit import RecordingAudit, SentRecords
from service.telemetry.counters import AUDIT_LOST

# Of texts that wait to be written, in each worker.
MAX_BYTES = 16 * 1024**2
# A row with more identifiers is closed, and another one begins.
_MAX_IDENTIFIERS = 2000
_log = logging.getLogger("service")


class _RowKey(NamedTuple):
    key_id: str
    resource: str
    state: str
    unchanged: bool


@dataclass
class AuditRow:
    """What one key was sent of one resource in one state, until it is written; times are milliseconds since 1970."""

    about: _RowKey
    since: int
    until: int = 0
    first: str = ""
    last: str = ""
    count: int = 0
    size: int = 0
    pages: list[str] = field(default_factory=list)
    name: str = field(default_factory=lambda: secrets.token_hex(10))  # a row written twice is one document

    def add(self, page: SentPage, identifiers: Sequence[str]) -> int:
        """Add a page; return the size of its text."""
        first, last, text = min(identifiers), max(identifiers), encode_page(page, identifiers)
        self.first = min(self.first, first) if self.pages else first
        self.last = max(self.last, last)
        self.until, self.count, self.size = page.at, self.count + len(identifiers), self.size + len(text)
        self.pages.append(text)
        return len(text)

    def document(self) -> dict[str, Any]:
        """Return the document of the row."""
        members = {"kind": SENT, "since": self.since, "until": self.until, "first": self.first, "last": self.last}
        return {**members, **self.about._asdict(), "pages": "".join(self.pages)}


@dataclass
class AuditGap:
    """What could not be recorded: how many records, and when they were sent (milliseconds since 1970)."""

    lost: int = 0
    since: int = 0
    until: int = 0

    def add(self, lost: int, at: int) -> None:
        """Count lost records."""
        self.since, self.until = self.since or at, at
        self.lost += lost


class AuditLog:
    """The rows of one worker."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Keep texts of at most `max_bytes` that are not written yet."""
        self._max_bytes = max_bytes
        self._unread = deque[tuple[str, "Sequence[SentRecords]", bool, int]]()
        self._open: dict[_RowKey, AuditRow] = {}
        self._closed = deque[AuditRow]()
        self.pending_bytes = 0
        self.gap = AuditGap()

    def open(self, key_id: str, *, is_head: bool) -> RecordingAudit:
        """Return the audit of one request."""
        return RecordingAudit(self.record, key_id, is_head=is_head)

    def record(self, key_id: str, sent: Sequence[SentRecords], *, unchanged: bool) -> None:
        """Record what a key was sent, in the next turn of the event loop: the response goes first."""
        if not self._unread:
            asyncio.get_running_loop().call_soon(self.pack)
        self._unread.append((key_id, sent, unchanged, int(time.time() * 1000)))

    def pack(self) -> None:
        """Add to rows what was recorded since the last time."""
        while self._unread:
            key_id, sent, unchanged, at = self._unread.popleft()
            for records in sent:
                try:
                    self._pack(key_id, records, at, unchanged=unchanged)
                except Exception:
                    # Never at the cost of a request, and never in silence.
                    _log.exception("What a key was sent could not be recorded for the audit.")
                    self._lose(1, at)

    def _pack(self, key_id: str, sent: SentRecords, at: int, *, unchanged: bool) -> None:
        for (alias, state), identifiers in sent.read().items():
            page = SentPage(at, sent.sequences.get(alias, 0))
            if not identifiers:
                continue
            if self.pending_bytes >= self._max_bytes:
                self._lose(len(identifiers), at)
                continue
            row = self._row(_RowKey(key_id, alias, state, unchanged), at)
            self.pending_bytes += row.add(page, identifiers)

    def _row(self, key: _RowKey, at: int) -> AuditRow:
        row = self._open.get(key)
        if row is not None and row.count >= _MAX_IDENTIFIERS:
            self._closed.append(self._open.pop(key))
            row = None
        if row is None:
            row = self._open[key] = AuditRow(key, at)
        return row

    def _lose(self, count: int, at: int) -> None:
        self.gap.add(count, at)
        AUDIT_LOST.inc(count)

    def take_rows(self) -> list[AuditRow]:
        """Return every row recorded so far; the caller writes them and calls `written`, or gives them back."""
        self.pack()
        rows = [*self._closed, *self._open.values()]
        self._closed.clear()
        self._open.clear()
        return rows

    def give_back(self, rows: Iterable[AuditRow]) -> None:
        """Keep rows that were not written for the next attempt."""
        self._closed.extendleft(rows)

    def written(self, rows: Iterable[AuditRow]) -> None:
        """Release rows that were written."""
        self.pending_bytes -= sum(row.size for row in rows)

    def take_gap(self) -> AuditGap:
        """Return what was lost since the last time, and start again from 0."""
        gap, self.gap = self.gap, AuditGap()
        return gap

    def give_gap_back(self, gap: AuditGap) -> None:
        """Keep a gap that was not written for the next attempt."""
        self.gap = AuditGap(gap.lost + self.gap.lost, gap.since or self.gap.since, self.gap.until or gap.until)
