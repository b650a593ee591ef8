"""Identifiers that a company which a run does not cover has live: no run takes a record from such a company."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.documents.builder import rejected_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from indexer.documents.builder import PendingDocument
    from indexer.documents.coverage import Coverage
    from indexer.indices.scan import IndexRow
    from indexer.source.lines import RejectedLine
    from mappings import Resource


def is_taken(row: IndexRow | None, covered: Coverage) -> bool:
    """Whether a record is live under a company that is not covered."""
    return row is not None and not row.deleted and not covered.includes(row.company)


def taken_reason(document: PendingDocument, owner: str) -> str:
    """Return why a document is refused, naming both companies; a sentence without its full stop."""
    return (
        f"{document.id} of {document.company} belongs to the company {owner}, which this run does not cover: "
        f"no two companies may share an identifier; for a record that moves, cover both, with --company {owner} too"
    )


def split_taken(
    documents: Iterable[PendingDocument], known: Mapping[str, IndexRow], covered: Coverage, resource: Resource
) -> tuple[list[PendingDocument], list[RejectedLine]]:
    """Return the documents that may be written, and the rejected lines of the others. `known` are the live records."""
    free: list[PendingDocument] = []
    taken: list[RejectedLine] = []
    for document in documents:
        row = known.get(document.id)
        if row is not None and is_taken(row, covered):
            taken.append(
                rejected_document(document, taken_reason(document, row.company), f"record.{resource.identifier}")
            )
        else:
            free.append(document)
    return free, taken
