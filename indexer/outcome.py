"""What is to be done with some drafts, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from indexer.bulk import Verdict
    from indexer.documents import Draft
    from indexer.fate import Fate
    from indexer.scan import Row


class Due(NamedTuple):
    """A draft that is to be written, and what is known of its record."""

    draft: Draft
    fate: Fate
    known: Row | None


@dataclass
class Outcome:
    """What became of some drafts. `refused` are those that the engine would not take, each with its reason."""

    indexed: int = 0
    unchanged: int = 0
    stale: int = 0
    refused: list[tuple[Draft, str]] = field(default_factory=list)

    def refuse(self, verdict: Verdict) -> set[str]:
        """Note what the engine would not take, and return the identifiers of the records."""
        refused = [(write.draft, reason) for write, reason in verdict.refused if write.draft is not None]
        self.refused += refused
        return {draft.id for draft, _ in refused}
