"""Which key was sent which records, of each request (docs/audit.md)."""

import asyncio
import logging
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any, NamedTuple, Protocol

import orjson
from aiohttp import web

from cluster.control_index import Mark
from mappings.fields import is_identifier
from mappings.resource import Resource
from mappings.stored_document import RECORD_DELIMITER
from service.http.responses import JsonBytes, has_sent_tag
from service.request_context import Sent, SentObserver
from service.search.engine import SearchEngine
from service.search.responses import parse_hits
from service.search.shared_state import WriteProblem, bulk_lines, bulk_problem
from service.telemetry.observation import AUDIT_FAILURES, AUDIT_LOST, AUDIT_ROWS

# The states of a record that was sent; any other is the reason why it left the copy (`service.feed.entries`).
LIVE = "live"
EVENT = "event"  # an entry of EntityEvent: the record changed or was deleted
ABSENT = "absent"  # 404: the key requested the record and did not get it

# The kinds of documents.
SENT, SESSION, GAP = "sent", "session", "gap"
# A session that was not renewed for longer has lost its last rows, unless it has ended.
SESSION_SECONDS = 120.0

_UNINDEXED: dict[str, Any] = {"index": False, "doc_values": False}
AUDIT_INDEX_BODY: dict[str, Any] = {
    "settings": {
        "index.number_of_shards": 1,
        "index.auto_expand_replicas": "0-1",
        "index.refresh_interval": "30s",
    },
    "mappings": {
        "dynamic": "strict",
        "properties": {
            "kind": {"type": "keyword"},
            "since": {"type": "date"},
            "until": {"type": "date"},
            # Of a row.
            "key_id": {"type": "keyword", **_UNINDEXED},
            "resource": {"type": "keyword"},
            "state": {"type": "keyword", **_UNINDEXED},
            "unchanged": {"type": "boolean", **_UNINDEXED},
            # Doc values alone: cheap to write, and a search for them is rare.
            "first": {"type": "keyword", "index": False},
            "last": {"type": "keyword", "index": False},
            "pages": {"type": "keyword", **_UNINDEXED},
            # Of a session, a process of the service; and of a gap, what it could not record.
            "session": {"type": "keyword", **_UNINDEXED},
            "has_ended": {"type": "boolean", **_UNINDEXED},
            "lost": {"type": "long", **_UNINDEXED},
        },
    },
}


class SentPage(NamedTuple):
    """When a record was sent, in milliseconds since 1970, and a sequence that the page was at least as new as."""

    at: int
    sequence: int


def encode_page(page: SentPage, identifiers: Iterable[str]) -> str:
    """Return the text of one page; those of several pages are joined."""
    return "\t{} {}\n{}\n".format(*page, "\n".join(identifiers))


def pages_with(pages: str, identifiers: Collection[str]) -> Iterator[SentPage]:
    if not any(f"\n{identifier}\n" in pages for identifier in identifiers):
        return
    for text in pages.split("\t")[1:]:
        head, *listed = text.split("\n")
        if not set(identifiers).isdisjoint(listed):
            at, sequence = head.split(" ")
            yield SentPage(int(at), int(sequence))


def holding_clauses(resource: str, identifiers: Sequence[str]) -> list[dict[str, Any]]:
    ranges = [
        {"bool": {"filter": [{"range": {"first": {"lte": name}}}, {"range": {"last": {"gte": name}}}]}}
        for name in identifiers
    ]
    return [{"term": {"kind": SENT}}, {"term": {"resource": resource}}, {"bool": {"should": ranges}}]


# Elasticsearch writes the id of a hit before its source, and its sort values after it.
_HIT_ID, _SORT = b'"_id":"', b'},"sort":["'
_QUOTE, _ESCAPE = b'"', b"\\"
# How `service.feed` begins the line of a record in a snapshot, and that of a change.
_LINE = re.compile(rb'\{"company":"[^"]*","id":"((?:[^"\\]|\\.)*)"')
_CHANGE = re.compile(
    rb'\{"resource":"(\w+)","company":"[^"]*","id":"((?:[^"\\]|\\.)*)","sequence":\d+,"time":"[^"]*",'
    rb'(?:"reason":"(\w+)")?'
)


def identifiers_of_hits(response: bytes | bytearray, ends: Sequence[int], count: int) -> list[str]:
    """Return the identifiers of the first `count` hits of a response, sorted by identifier or feed key.

    `ends` are the positions after their records, as `extract_records` finds them: sort values are next to them, so that
    no record is read. Without them the response is parsed.
    """
    text = b"\n".join(_cut_identifiers(response, ends[:count])) if ends else _ESCAPE
    if _ESCAPE in text:
        return [hit["_id"] for hit in parse_hits(response)[:count]]
    return text.decode().split("\n")


def _cut_identifiers(response: bytes | bytearray, ends: Sequence[int]) -> list[bytes | bytearray]:
    """Return the sort values, without the company that all of them begin with if they are feed keys.

    Return an escape, so that the response is parsed, if the first sort value is not next to its record.
    """
    index = response.index
    if not response.startswith(_SORT, ends[0] + len(RECORD_DELIMITER)):
        return [_ESCAPE]
    before, first = len(RECORD_DELIMITER) + len(_SORT), index(_HIT_ID) + len(_HIT_ID)
    identifier = response[first : index(_QUOTE, first)]
    start = ends[0] + before
    value = response[start : index(_QUOTE, start)]
    if not value.endswith(identifier):
        return [_ESCAPE]
    before += len(value) - len(identifier)
    return [response[end + before : index(_QUOTE, end + before)] for end in ends]


def identifiers_of_changes(entries: Iterable[bytes]) -> dict[tuple[str, str], list[str]]:
    """Return the identifiers of encoded changes, by resource and state: live, or the reason for a removal."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        alias, name, reason = _CHANGE.match(entry).groups()  # type: ignore[union-attr]
        found.setdefault((alias.decode(), reason.decode() if reason else LIVE), []).append(_text(name))
    return found


def identifiers_of_lines(lines: Iterable[JsonBytes]) -> list[str]:
    """Return the identifiers of the lines of a snapshot, of which the beginnings suffice."""
    return [_text(_LINE.match(line)[1]) for line in lines]  # type: ignore[index]


def _text(name: bytes) -> str:
    """Return the text of an encoded identifier."""
    return str(orjson.loads(b'"%b"' % name)) if _ESCAPE in name else name.decode()


# By alias of the resource and state of the records.
SentNames = Mapping[tuple[str, str], Sequence[str]]


class SentRecords(NamedTuple):
    """What a response sends: identifiers, read later, and the sequences that it is at least as new as, by alias."""

    read: Callable[[], SentNames]
    sequences: Mapping[str, int]


class RecordSent(Protocol):
    """Takes what a key was sent; `unchanged` if a 304 confirmed that it still has it."""

    def __call__(self, key_id: str, sent: Sequence[SentRecords], *, unchanged: bool) -> None:
        """Record it in the background."""


class RecordingAudit:
    """Notes what one request of a key sends."""

    def __init__(self, record: RecordSent, key_id: str, *, is_head: bool) -> None:
        """Record with `record` at the end; a response to HEAD has no body."""
        self._record, self._key_id, self._is_head = record, key_id, is_head
        self._sequences: dict[str, int] = {}
        self._noted: list[SentRecords] = []

    def searches(self, resource: Resource, mark: Mark | None) -> None:
        """Note the mark that the next search is at least as new as."""
        if mark is not None:
            self._sequences.setdefault(resource.alias, mark.sequence)

    def ends(self) -> list[int] | None:
        """Return a list for the positions after records, which `hits` needs."""
        return []

    def hits(self, resource: Resource, response: bytes, ends: list[int] | None, count: int) -> None:
        """Note the first `count` hits of a response of Elasticsearch, sorted by identifier or feed key."""
        key = (resource.alias, LIVE)
        if count:
            self._note(lambda: {key: identifiers_of_hits(response, ends or (), count)})

    def values(self, resource: Resource, values: Sequence[Any]) -> None:
        """Note the doc values of records, as `service.projection` returns them."""
        key = (resource.alias, LIVE)
        self._note(lambda: {key: [value.id[0] for value in values]})

    def names(self, resource: Resource, names: Sequence[str]) -> None:
        """Note records by their identifiers."""
        self._note(lambda: {(resource.alias, LIVE): names})

    def events(self, resource: Resource, names: Sequence[str], sequence: int) -> None:
        """Note entries of EntityEvent by the identifiers of their records, read up to a sequence."""
        key = (resource.alias, EVENT)
        self._noted.append(SentRecords(lambda: {key: names}, {resource.alias: sequence}))

    def changes(self, entries: Sequence[bytes], sequences: Mapping[str, int]) -> None:
        """Note encoded changes, read up to these sequences."""
        if entries:
            self._noted.append(SentRecords(partial(identifiers_of_changes, entries), sequences))

    def batch(self, resource: Resource, lines: Sequence[JsonBytes]) -> None:
        key = (resource.alias, LIVE)
        self._record_now(lambda: {key: identifiers_of_lines(lines)})

    def absent(self, resource: Resource, name: str) -> None:
        """Record at once that the key requested a record and gets 404."""
        key = (resource.alias, ABSENT)
        # Whatever else a path names could pretend to be several identifiers.
        if is_identifier(name):
            self._record_now(lambda: {key: [name]})

    def finish(self, request: web.BaseRequest | None, response: web.Response) -> None:
        """Record what was noted. A 304 sends nothing, but says that the key has the records of its tag."""
        unchanged = response.status == HTTPStatus.NOT_MODIFIED
        if self._noted and not self._is_head and (not unchanged or (request and has_sent_tag(request, response))):
            self._record(self._key_id, self._noted, unchanged=unchanged)

    def _note(self, read: Callable[[], SentNames]) -> None:
        self._noted.append(SentRecords(read, self._sequences))

    def _record_now(self, read: Callable[[], SentNames]) -> None:
        if not self._is_head:
            self._record(self._key_id, [SentRecords(read, self._sequences)], unchanged=False)


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
    """What one key was sent of one resource in one state within a few seconds, until it is written: a page, or several.

    Times are milliseconds since 1970. The text lists each page: a line with a TAB, the time and the sequence, then the
    identifiers, one a line; none contains a TAB or a line break. A row is found by its first and last identifier; its
    text decides.
    """

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
    """The rows of one worker.

    What does not fit is counted as lost; the count is written as soon as possible, and `brokerage audit who` reports
    it.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Keep texts of at most `max_bytes` that are not written yet."""
        self.max_bytes = max_bytes
        self._unread = deque[tuple[str, "Sequence[SentRecords]", bool, int]]()
        self._open: dict[_RowKey, AuditRow] = {}
        self._closed = deque[AuditRow]()
        self.pending_bytes = 0
        self.gap = AuditGap()

    def open(self, key_id: str, *, is_head: bool) -> RecordingAudit:
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
            if self.pending_bytes >= self.max_bytes:
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
        self.pending_bytes -= sum(row.size for row in rows)

    def take_gap(self) -> AuditGap:
        """Return what was lost since the last time, and start again from 0."""
        gap, self.gap = self.gap, AuditGap()
        return gap

    def give_gap_back(self, gap: AuditGap) -> None:
        """Keep a gap that was not written for the next attempt."""
        self.gap = AuditGap(gap.lost + self.gap.lost, gap.since or self.gap.since, self.gap.until or gap.until)


Action = tuple[dict[str, Any], dict[str, Any]]

_WRITE_INTERVAL_SECONDS = 5.0
# A worker without requests renews its session this often.
_RENEWAL_SECONDS = SESSION_SECONDS / 2
_WRITE_TIMEOUT_SECONDS = 10.0
# The longest delay of a shutdown.
_LAST_WRITE_SECONDS = 5.0
_BATCH_ROWS = 50
_CREATOR = "`brokerage audit create`"


class WrittenAudit(SentObserver):
    """The audit of one worker, written to Elasticsearch, which takes the privilege `index` on the alias.

    Each worker keeps a document of its session: one that has not ended and is not renewed has lost its last rows.
    """

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

    def open(self, key_id: str, *, is_head: bool) -> Sent:
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
