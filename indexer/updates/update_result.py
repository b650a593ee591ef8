"""What an update is about to write, and what became of it."""

from dataclasses import dataclass, field
from typing import NamedTuple

from indexer.changes.change_kind import ChangeKind
from indexer.documents.builder import PendingDocument
from indexer.indices.bulk import BulkResult
from indexer.indices.scan import IndexRow


class PlannedWrite(NamedTuple):
    """A document to write, and the known state of its record."""

    document: PendingDocument
    kind: ChangeKind
    known: IndexRow | None


@dataclass
class UpdateResult:
    """Counts of applied documents, and these with the live states of their records before, or with a reason."""

    indexed: int = 0
    unchanged: int = 0
    served: list[tuple[PendingDocument, IndexRow | None]] = field(default_factory=list)
    stale: list[tuple[PendingDocument, IndexRow]] = field(default_factory=list)
    rejected: list[tuple[PendingDocument, str]] = field(default_factory=list)

    def add_rejected(self, result: BulkResult) -> set[str]:
        """Add the rejected documents of a bulk result and return their record identifiers."""
        rejected = [(write.document, reason) for write, reason in result.rejected if write.document is not None]
        self.rejected += rejected
        return {document.id for document, _ in rejected}
