"""The indices of the audit: created, rolled over, pruned and searched, for the command line."""

import datetime as dt
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from elasticsearch import AsyncElasticsearch, NotFoundError

from service.audit.audit_rows import (
    AUDIT_INDEX_BODY,
    GAP,
    SESSION,
    SESSION_SECONDS,
    SentPage,
    holding_clauses,
    pages_with,
)

# A row has up to 75 KB.
_PAGE_SIZE = 200
_KEEP_ALIVE = "1m"
_ROLLOVER = {"max_age": "1d", "min_docs": 1}


class NoAudit(LookupError):
    """There is no index of the audit."""


@dataclass(frozen=True)
class SentRecord:
    """A record as one key was sent it: in a state (`service.audit.audit_rows`), or confirmed by 304."""

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
        """Add the document of a session or of a gap."""
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
        return [each for each in self.sessions.values() if not each["has_ended"] and each["until"] < late]


class AuditStore:
    """The audit of one cluster, behind its alias."""

    def __init__(self, client: AsyncElasticsearch, alias: str) -> None:
        """Use the alias; its indices are named after it."""
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
        async for row in self._documents(holding_clauses(resource, identifiers)):
            for page in pages_with(row["pages"], identifiers):
                yield SentRecord(row["key_id"], resource, row["state"], row["unchanged"], page)

    async def coverage(self) -> AuditCoverage:
        """Return the times for which the audit is complete, and what is known to be missing. Raises NoAudit."""
        found = AuditCoverage()
        async for document in self._documents([{"terms": {"kind": [SESSION, GAP]}}]):
            found.add(document)
        return found

    async def _documents(self, clauses: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
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
