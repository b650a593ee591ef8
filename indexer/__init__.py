"""How source records become served indices: rebuilds, and the upkeep of what they leave behind."""

from indexer.errors import EngineError, IndexerError, LockedError, RefusedError, SourceError
from indexer.report import OnProgress, ResourceReport, Stage, Summary
from indexer.run import reindex
from indexer.settings import IndexerSettings
from indexer.source import Directory, Source
from indexer.upkeep import ResourceStatus, previous, prune, rollback, status, superfluous

__all__ = [
    "Directory",
    "EngineError",
    "IndexerError",
    "IndexerSettings",
    "LockedError",
    "OnProgress",
    "RefusedError",
    "ResourceReport",
    "ResourceStatus",
    "Source",
    "SourceError",
    "Stage",
    "Summary",
    "previous",
    "prune",
    "reindex",
    "rollback",
    "status",
    "superfluous",
]
