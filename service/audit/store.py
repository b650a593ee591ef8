"""The audit in Elasticsearch: written, pruned, and searched for a takedown."""

import datetime as dt
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from elasticsearch import AsyncElasticsearch, NotFoundError

from service.audit.reads import (
    ABSENT,
    AUDIT_INDEX_BODY,
    EVENT,
    GAP,
    LIVE,
    SESSION,
    SESSION_SECONDS,
    SentPage,
    holding_clauses,
    pages_with,
)
from service.feed.streaming import iso_timestamp

# A row has up to 75 KB.
_PAGE_SIZE = 200
_KEEP_ALIVE = "1m"
_ROLLOVER = {"max_age": "1d", "min_docs": 1}


class NoAudit(LookupError):
    """There is no index of the audit."""


@dataclass(frozen=True)
class SentRecord:
    """A record as one key was sent it: in a state (`service.audit.reads`), or confirmed by 304."""

    key_id: str
    resource: str
    state: str
    unchanged: bool
    page: SentPage


@dataclass
class AuditCoverage:
    """The times for which the audit is complete, in milliseconds since 1970, and what is known to be missing."""

    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    gaps: list[dict[str, Any]] = field(default_factory=list)

    def add(self, document: dict[str, Any]) -> None:
        if document["kind"] == GAP:
            self.gaps.append(document)
            return
        known = self.sessions.setdefault(document["session"], document)
        if document["until"] >= known["until"]:
            self.sessions[document["session"]] = document

    def periods(self) -> list[tuple[int, int]]:
        """Return the periods in which a process recorded, in order, without overlaps."""
        periods: list[tuple[int, int]] = []
        for start, end in sorted((session["since"], session["until"]) for session in self.sessions.values()):
            if periods and start <= periods[-1][1] + SESSION_SECONDS * 1000:
                periods[-1] = periods[-1][0], max(end, periods[-1][1])
            else:
                periods.append((start, end))
        return periods

    def broken(self, now: int) -> list[dict[str, Any]]:
        """Return the sessions that have not ended and are not renewed: their last rows are missing."""
        late = now - SESSION_SECONDS * 1000
        return [session for session in self.sessions.values() if not session["has_ended"] and session["until"] < late]


class AuditStore:
    def __init__(self, client: AsyncElasticsearch, alias: str) -> None:
        self._client = client
        self._alias = alias

    async def create(self) -> bool:
        """Create the first index and the alias; return False if the alias exists."""
        if await self._client.indices.exists_alias(name=self._alias):
            return False
        aliases = {self._alias: {"is_write_index": True}}
        await self._client.indices.create(index=f"{self._alias}-000001", aliases=aliases, **AUDIT_INDEX_BODY)
        return True

    async def prune(self, days: int) -> list[str]:
        """Begin a new index after a day, and delete the indices whose rows are all older; return their names."""
        try:
            await self._client.indices.rollover(alias=self._alias, conditions=_ROLLOVER, **AUDIT_INDEX_BODY)
        except NotFoundError as error:
            raise NoAudit from error
        facts = await self._client.indices.get_alias(name=self._alias)
        earliest = int((dt.datetime.now(dt.UTC) - dt.timedelta(days=days)).timestamp() * 1000)
        old = [
            index
            for index, fact in sorted(facts.items())
            if not fact["aliases"][self._alias].get("is_write_index") and await self._newest(index) < earliest
        ]
        for index in old:
            await self._client.indices.delete(index=index)
        return old

    async def _newest(self, index: str) -> float:
        newest = {"newest": {"max": {"field": "until"}}}
        response = await self._client.search(index=index, size=0, aggregations=newest)
        return response["aggregations"]["newest"]["value"] or 0.0

    async def sent(self, resource: str, identifiers: Sequence[str]) -> AsyncIterator[SentRecord]:
        """Yield every time that a record was sent; `identifiers` are its spellings. Raises NoAudit."""
        async for row in self.documents(holding_clauses(resource, identifiers)):
            for page in pages_with(row["pages"], identifiers):
                yield SentRecord(row["key_id"], resource, row["state"], row["unchanged"], page)

    async def coverage(self) -> AuditCoverage:
        """Return the times for which the audit is complete, and what is known to be missing. Raises NoAudit."""
        found = AuditCoverage()
        async for document in self.documents([{"terms": {"kind": [SESSION, GAP]}}]):
            found.add(document)
        return found

    async def documents(self, clauses: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """Yield the stored documents that match all clauses; raise NoAudit without an index."""
        try:
            await self._client.indices.refresh(index=self._alias)
            pit = (await self._client.open_point_in_time(index=self._alias, keep_alive=_KEEP_ALIVE))["id"]
        except NotFoundError as error:
            raise NoAudit from error
        after: list[Any] | None = None
        try:
            while hits := (await self._page(pit, clauses, after))["hits"]["hits"]:
                for hit in hits:
                    yield hit["_source"]
                after = hits[-1]["sort"]
        finally:
            await self._client.close_point_in_time(id=pit)

    async def _page(self, pit: str, clauses: list[dict[str, Any]], after: list[Any] | None) -> Any:
        return await self._client.search(
            pit={"id": pit, "keep_alive": _KEEP_ALIVE},
            query={"bool": {"filter": clauses}},
            sort=["_shard_doc"],
            size=_PAGE_SIZE,
            search_after=after,
            track_total_hits=False,
            allow_partial_search_results=False,
        )


@dataclass(frozen=True)
class CurrentRecord:
    """A record as it is now; `state` is live, deleted, or unknown if the index has no trace of it."""

    resource: str
    identifier: str
    state: str = "unknown"
    sequence: int = 0

    @property
    def is_deleted(self) -> bool:
        """Whether it left the index, or never was in it."""
        return self.state != LIVE


@dataclass
class Holder:
    """A key that was sent a record. Times are milliseconds since 1970.

    `sent` is when it was sent last, `confirmed` when a 304 last confirmed that it has it, `removed` when it
    last read why it left the copy, `event` when it last read its EntityEvent, `absent` when it last got 404 for it.
    """

    key_id: str
    resource: str
    times: int = 0
    sent: SentPage | None = None
    confirmed: SentPage | None = None
    removed: SentPage | None = None
    reason: str = ""
    event: SentPage | None = None
    absent: SentPage | None = None

    def add(self, record: SentRecord) -> None:
        page = record.page
        if record.state == EVENT:
            self.event = _later(self.event, page)
        elif record.state == ABSENT:
            self.absent = _later(self.absent, page)
        elif record.state != LIVE:
            self.removed = _later(self.removed, page)
            self.reason = record.state if self.removed is page else self.reason
        elif record.unchanged:
            self.confirmed = _later(self.confirmed, page)
        else:
            self.times += 1
            self.sent = _later(self.sent, page)

    @property
    def held(self) -> SentPage | None:
        """The last proof that the key has the record: it was sent it, or a 304 confirmed it."""
        return max(filter(None, (self.sent, self.confirmed)), default=None)

    def removal_read(self, now: CurrentRecord) -> tuple[SentPage, str] | None:
        """Return when and how the key learned, after it was last sent the record, that it is gone; None if not."""
        held_at = self.held.at if self.held else 0
        event = self.event if now.is_deleted and self.event and self.event.sequence >= now.sequence else None
        ways = ((self.removed, self.reason), (event, EVENT), (self.absent, ABSENT))
        later = [(page, way) for page, way in ways if page is not None and page.at > held_at]
        return min(later, default=None)

    def as_json(self, now: CurrentRecord) -> dict[str, Any]:
        """Return what is known of the key. `state` is live, or how it learned that the record is gone."""
        removal, held = self.removal_read(now), self.held
        return {
            "key_id": self.key_id,
            "resource": self.resource,
            "state": removal[1] if removal else LIVE,
            "last_sent": iso_time(self.sent),
            "last_confirmed": iso_time(self.confirmed),
            "times_sent": self.times,
            "sequence": held and held.sequence,
            "is_current": bool(held and not removal and not now.is_deleted and held.sequence >= now.sequence),
            "removal_read": iso_time(removal and removal[0]),
        }


def iso_time(page: SentPage | None) -> str | None:
    """Return when a page was sent as ISO 8601 in UTC."""
    return iso_timestamp(page.at).decode() if page else None


def _later(known: SentPage | None, page: SentPage) -> SentPage:
    return page if known is None or page > known else known


async def find_holders(sent: AsyncIterable[SentRecord]) -> list[Holder]:
    """Return the keys that were sent a record, the last one first; those that only asked in vain are left out."""
    holders: dict[tuple[str, str], Holder] = {}
    async for record in sent:
        key = (record.key_id, record.resource)
        holders.setdefault(key, Holder(*key)).add(record)
    found = [holder for holder in holders.values() if holder.held or holder.removed]
    return sorted(found, key=lambda holder: -(holder.held or holder.removed or SentPage(0, 0)).at)
