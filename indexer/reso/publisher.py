"""Publishing a mirror to the index: builds of missing indices, updates of due records, and the replication status."""

from collections.abc import Sequence

from indexer.after_publish import after_run
from indexer.changes.epochs import begin_due_epochs
from indexer.clock import VERSIONS_PER_MICROSECOND, now_milliseconds
from indexer.documents import companies
from indexer.errors import SourceError, translate_client_errors
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.lock import ignore_wait
from indexer.rebuild import RebuildRequest, reindex
from indexer.reporting.report import OnProgress, RunSummary, tolerated_count
from indexer.reso.mapping.record_mapper import RecordMapper
from indexer.reso.mirror import Mirror
from indexer.reso.outbox import Outbox, SentLog
from indexer.reso.replication_status import ReplicationStatus, record_replication
from indexer.reso.source_map import ReplicationPlan
from indexer.scan import scan_rows
from indexer.settings import IndexerContext
from indexer.troubles import report_standing
from indexer.update import update
from mappings import COMPANY, RESOURCES, Resource

_INDEXED_NOTE = "found"
_EPOCHS_NOTE = "lives"

_NOT_CONTINUED = "The index was restored or rolled back since records were last sent: sending all of them again."


class MirrorPublisher:
    def __init__(self, context: IndexerContext, plan: ReplicationPlan, mirror: Mirror, on_progress: OnProgress) -> None:
        """Compile the dictionary; raise SourceError for an unknown time zone."""
        self._context, self._plan, self._mirror, self._on_progress = context, plan, mirror, on_progress
        try:
            mapper = RecordMapper(plan.dictionary, mirror, plan.prefix, plan.time_zone)
        except ValueError as error:
            raise SourceError(f"{error}.") from None
        self.outbox = Outbox(mirror, plan, mapper, context.settings.future_seconds)
        self._resources = [resource for resource in RESOURCES if self.outbox.has(resource)]

    async def prepare(self) -> None:
        """Raise SourceError for an unknown company; for a new mirror, record the versions that the index has."""
        with translate_client_errors():
            known = await companies.companies_from_index(self._context)
            if self._plan.declared is None and known.key_of(self._plan.company) != self._plan.company:
                raise SourceError(
                    f"{self._plan.company} is not a company in the index. Load it with `brokerage index reindex` "
                    "or `update`, or declare it as [company] in the map."
                )
            if self._mirror.read_note(_INDEXED_NOTE) is None:
                await self._record_indexed()

    async def _record_indexed(self) -> None:
        """Store the versions that the index has of the company's records, because new ones must be higher."""
        of_company = {"term": {"company": self._plan.company}}
        sent_log = SentLog(self._mirror)
        for resource in self._resources:
            if (live := await GenerationLifecycle(self._context, resource).live()) is None or resource is COMPANY:
                continue
            async for page in scan_rows(self._context, live, query=of_company):
                versions = [(row.id, max(row.version, 0) // VERSIONS_PER_MICROSECOND, row.deleted) for row in page]
                with self._mirror.transaction():
                    sent_log.store_indexed(resource.alias, versions)
        with self._mirror.transaction():
            self._mirror.write_note(_INDEXED_NOTE, value=True)

    async def follow_epochs(self) -> str | None:
        """Make everything due if the index does not continue what it was when records were last sent.

        That is so after a restore or a rollback. Returns the message about it.
        """
        epochs = await self._present_epochs()
        if epochs == (known := self._mirror.read_note(_EPOCHS_NOTE)):
            return None
        is_continued = known is None or set(known) <= set(epochs)
        if not is_continued:
            with translate_client_errors():
                await self._record_indexed()
        with self._mirror.transaction():
            if not is_continued:
                self._mirror.mark_all_due()
            self._mirror.write_note(_EPOCHS_NOTE, epochs)
        return None if is_continued else _NOT_CONTINUED

    async def _present_epochs(self) -> list[str]:
        with translate_client_errors():
            return await begin_due_epochs(self._context, ignore_wait)

    def limit_removals(self, share: float) -> str | None:
        """Suspend deletions of unmatched records above a share of all; return the message about it, if so."""
        unmatched, total = SentLog(self._mirror).count_unmatched()
        self.outbox.is_sole = self._plan.is_sole and unmatched <= tolerated_count(share, total)
        if not self._plan.is_sole or self.outbox.is_sole:
            return None
        return (
            f"The source lacks {unmatched:,} of {total:,} records that the index has of {self._plan.company}, more "
            f"than the share of {share} that BROKERAGE_RESO_REMOVAL_LIMIT allows. They are kept."
        )

    async def publish(self) -> RunSummary:
        """Build missing indices and publish due records; raise the errors of `reindex` and `update`."""
        change, unbuilt = self._mirror.last_change, await self._unbuilt_resources()
        if unbuilt:
            summary = await reindex(self._context, self.outbox, RebuildRequest(unbuilt, on_progress=self._on_progress))
            if summary.exit_code and any(report.refusal for report in summary.resources):
                return summary
            self._mirror.write_note(_EPOCHS_NOTE, await self._present_epochs())
            if set(unbuilt) >= set(self._resources) - {COMPANY}:
                self._mark_published(change)
                return summary
        if not (self._mirror.count("due") or self.outbox.has_unqueued_changes):
            summary = RunSummary()
            with translate_client_errors():
                summary.notes += await after_run(self._context)
                await report_standing(self._context, summary)
            return summary
        summary = await update(self._context, self.outbox, on_progress=self._on_progress)
        self._mark_published(change)
        return summary

    def _mark_published(self, change: int) -> None:
        with self._mirror.transaction():
            self._mirror.clear_due(change)
            self.outbox.mark_published()

    async def _unbuilt_resources(self) -> list[Resource]:
        with translate_client_errors():
            live = {resource: await GenerationLifecycle(self._context, resource).live() for resource in self._resources}
        return [resource for resource, index in live.items() if index is None]

    async def record_status(
        self,
        complete: int | None,
        followed_by: str,
        complaint: str | None,
        keys_checked: int | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        """Store the status for `index status`; all changes up to `complete` (Unix milliseconds) are published."""
        entities = self._plan.dictionary.entities
        replication = ReplicationStatus(
            source=self._plan.url,
            company=self._plan.company,
            resources=[resource.alias for resource in self._resources if resource is not COMPANY],
            at=now_milliseconds(),
            complete=complete,
            followed_by=followed_by,
            records={name: count for name in entities if (count := self._mirror.count("record", name))},
            due=self._mirror.count("due"),
            complaint=complaint,
            prefix=self._plan.prefix,
            keys_checked=keys_checked,
            missing=list(missing),
        )
        with translate_client_errors():
            await record_replication(self._context, replication)
