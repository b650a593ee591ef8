"""The indexer: full rebuilds and incremental updates of the served indices, and their maintenance."""

from indexer.changes.epochs import ClockRepair, begin_new_epochs, repair_clock
from indexer.errors import ClockError, ElasticsearchError, IndexerError, LockedError, RefusedError, SourceError
from indexer.inspection import dry_run
from indexer.maintenance.compaction import Compaction, CompactionOutcome, CompactionProgress, compact
from indexer.maintenance.inventory import Pruned, ResourceStatus, prunable, prune, status
from indexer.rebuild import RebuildRequest, reindex
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, RunSummary
from indexer.rollback import rollback, rollback_target
from indexer.settings import IndexerContext, IndexerSettings
from indexer.source.lines import ChangeStream, LineStream, RejectedLine, Source, SourceLine
from indexer.source.opener import FolderSource, open_source
from indexer.troubles import dismiss, troubles, withdraw
from indexer.update import update

__all__ = [
    "ChangeStream",
    "ClockError",
    "ClockRepair",
    "Compaction",
    "CompactionOutcome",
    "CompactionProgress",
    "ElasticsearchError",
    "FolderSource",
    "IndexerContext",
    "IndexerError",
    "IndexerSettings",
    "LineStream",
    "LockedError",
    "OnProgress",
    "Pruned",
    "RebuildRequest",
    "RefusedError",
    "RejectedLine",
    "ResourceReport",
    "ResourceStatus",
    "RunStage",
    "RunSummary",
    "Source",
    "SourceError",
    "SourceLine",
    "begin_new_epochs",
    "compact",
    "dismiss",
    "dry_run",
    "open_source",
    "prunable",
    "prune",
    "reindex",
    "repair_clock",
    "rollback",
    "rollback_target",
    "status",
    "troubles",
    "update",
    "withdraw",
]
