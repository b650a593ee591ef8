"""From a mirror to the index: first builds of what was never built, updates of what is due, and word of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer import companies
from indexer.clocks import now
from indexer.errors import SourceError, engine_errors
from indexer.lifecycle import Lifecycle
from indexer.replications import Replication, enter_replication
from indexer.report import OnProgress, Summary
from indexer.reso.composing import Composer
from indexer.reso.outbox import Outbox
from indexer.reso.told import Tellings
from indexer.run import reindex
from indexer.scan import rows
from indexer.shares import allowed
from indexer.update import update
from mappings import COMPANY, RESOURCES

if TYPE_CHECKING:
    from indexer.engine import Engine
    from indexer.reso.mirror import Mirror
    from indexer.reso.plan import Plan
    from mappings import Resource

_FOUND = "found"
# A version is the microsecond times this.
_VERSIONS_A_MICROSECOND = 1024


class Telling:
    """What goes out of one mirror."""

    def __init__(self, engine: Engine, plan: Plan, mirror: Mirror, on_progress: OnProgress) -> None:
        """Compile the dictionary; raise SourceError for a time zone that nobody knows."""
        self._engine, self._plan, self._mirror, self._on_progress = engine, plan, mirror, on_progress
        try:
            composer = Composer(plan.dictionary, mirror, plan.prefix, plan.time_zone)
        except ValueError as error:
            raise SourceError(f"{error}.") from None
        self.outbox = Outbox(mirror, plan, composer)
        self._resources = [resource for resource in RESOURCES if self.outbox.has(resource)]

    async def begin(self) -> None:
        """Raise SourceError for a company that nobody knows; a new mirror takes note of what the index has."""
        with engine_errors():
            known = await companies.from_index(self._engine.client, self._engine.connection.alias(COMPANY))
            if self._plan.declared is None and known.key(self._plan.company) != self._plan.company:
                raise SourceError(
                    f"{self._plan.company} is no company of the index: load it with `brokerage index reindex` or "
                    "`update`, or declare it as [company] in the map."
                )
            if self._mirror.note(_FOUND) is None:
                await self._find()

    async def _find(self) -> None:
        """Keep what the index has of the company: what is told must be newer, whoever has told it before."""
        of_company = {"term": {"company": self._plan.company}}
        tellings = Tellings(self._mirror)
        for resource in self._resources:
            if (live := await Lifecycle(self._engine, resource).live()) is None or resource is COMPANY:
                continue
            async for page in rows(self._engine, live, query=of_company):
                found = [(row.id, row.version // _VERSIONS_A_MICROSECOND, row.deleted) for row in page]
                with self._mirror.transaction():
                    tellings.find(resource.alias, found)
        with self._mirror.transaction():
            self._mirror.write_note(_FOUND, value=True)

    def guard(self, share: float) -> str | None:
        """Delete nothing that only the index has where that is more than a share of it; return what to say then."""
        left, held = Tellings(self._mirror).left_over_of()
        self.outbox.is_sole = self._plan.is_sole and left <= allowed(share, held)
        if not self._plan.is_sole or self.outbox.is_sole:
            return None
        return (
            f"The source lacks {left:,} of {held:,} records that the index has of {self._plan.company}, more than the "
            f"share of {share} that BROKERAGE_RESO_REMOVAL_LIMIT allows. They stay."
        )

    async def tell(self) -> Summary:
        """Tell everything that is due; raise what `reindex` and `update` raise."""
        change, absent = self._mirror.changes, await self._absent()
        if absent:
            summary = await reindex(self._engine, self.outbox, resources=absent, on_progress=self._on_progress)
            if summary.exit_code and any(report.refusal for report in summary.resources):
                return summary
            if set(absent) >= set(self._resources) - {COMPANY}:
                self._settle(change)
                return summary
        if not (self._mirror.count("due") or self.outbox.has_more):
            return Summary()
        summary = await update(self._engine, self.outbox, on_progress=self._on_progress)
        self._settle(change)
        return summary

    def _settle(self, change: int) -> None:
        with self._mirror.transaction():
            self._mirror.settle(change)
            self.outbox.settled()

    async def _absent(self) -> list[Resource]:
        with engine_errors():
            live = {resource: await Lifecycle(self._engine, resource).live() for resource in self._resources}
        return [resource for resource, index in live.items() if index is None]

    async def note(self, complete: int | None, followed_by: str, complaint: str | None) -> None:
        """Write down, for `index status`, that everything up to `complete`, in milliseconds since 1970, was told."""
        entities = self._plan.dictionary.entities
        replication = Replication(
            source=self._plan.url,
            company=self._plan.company,
            resources=[resource.alias for resource in self._resources if resource is not COMPANY],
            at=now(),
            complete=complete,
            followed_by=followed_by,
            records={name: count for name in entities if (count := self._mirror.count("record", name))},
            due=self._mirror.count("due"),
            complaint=complaint,
            prefix=self._plan.prefix,
        )
        with engine_errors():
            await enter_replication(self._engine, replication)
