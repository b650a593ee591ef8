"""The indexer: full rebuilds and incremental updates of the served indices, and their maintenance."""

from indexer.build.dry_run import dry_run
from indexer.build.rebuild import reindex
from indexer.context import IndexerContext
from indexer.errors import ClockError, ElasticsearchError, IndexerError, LockedError, RefusedError, SourceError
from indexer.maintenance.clock_repair import ClockRepair, repair_clock
from indexer.maintenance.compaction import Compaction, CompactionOutcome, CompactionProgress, compact
from indexer.maintenance.pruning import Pruned, prunable, prune
from indexer.maintenance.restored import begin_new_lives
from indexer.maintenance.rollback import rollback, rollback_target
from indexer.maintenance.status import ResourceStatus, status
from indexer.reporting.report import OnProgress, ResourceReport, RunStage, RunSummary
from indexer.settings import IndexerSettings
from indexer.source.folder_source import FolderSource
from indexer.source.lines import ChangeStream, LineStream, RejectedLine, Source, SourceLine
from indexer.source.opener import open_source
from indexer.updates.update_run import update

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
    "RefusedError",
    "RejectedLine",
    "ResourceReport",
    "ResourceStatus",
    "RunStage",
    "RunSummary",
    "Source",
    "SourceError",
    "SourceLine",
    "begin_new_lives",
    "compact",
    "dry_run",
    "open_source",
    "prunable",
    "prune",
    "reindex",
    "repair_clock",
    "rollback",
    "rollback_target",
    "status",
    "update",
]
