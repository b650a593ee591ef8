"""How source records become served indices: rebuilds, updates, and the upkeep of what they leave behind."""

from indexer.directory import Directory
from indexer.dry_run import dry_run
from indexer.engine import Engine
from indexer.errors import EngineError, IndexerError, LockedError, RefusedError, SourceError
from indexer.open_source import open_source
from indexer.report import OnProgress, ResourceReport, Stage, Summary
from indexer.run import reindex
from indexer.settings import IndexerSettings
from indexer.source import Fault, Feed, Line, Reading, Source
from indexer.status import ResourceStatus, status
from indexer.update import update
from indexer.upkeep import previous, prune, rollback, superfluous

__all__ = [
    "Directory",
    "Engine",
    "EngineError",
    "Fault",
    "Feed",
    "IndexerError",
    "IndexerSettings",
    "Line",
    "LockedError",
    "OnProgress",
    "Reading",
    "RefusedError",
    "ResourceReport",
    "ResourceStatus",
    "Source",
    "SourceError",
    "Stage",
    "Summary",
    "dry_run",
    "open_source",
    "previous",
    "prune",
    "reindex",
    "rollback",
    "status",
    "superfluous",
    "update",
]
