"""Identifiers that a company which a run does not cover has live: no run takes a record from such a company."""

from collections.abc import Iterable, Mapping

from indexer.documents.builder import PendingDocument
from indexer.documents.coverage import Coverage
from indexer.indices.scan import IndexRow


def is_taken(row: IndexRow | None, covered: Coverage) -> bool:
    """Whether a record is live under a company that is not covered."""
    return row is not None and not row.deleted and not covered.includes(row.company)


def split_taken(
    documents: Iterable[PendingDocument], known: Mapping[str, IndexRow], covered: Coverage
) -> tuple[list[PendingDocument], list[tuple[PendingDocument, str]]]:
    """Return the documents that may be written, and the others, each with the reason, which names both companies.

    `known` are the live records. A reason is a sentence without its full stop.
    """
    free: list[PendingDocument] = []
    taken: list[tuple[PendingDocument, str]] = []
    for document in documents:
        row = known.get(document.id)
        if row is not None and is_taken(row, covered):
            taken.append((document, _reason(document, row.company)))
        else:
            free.append(document)
    return free, taken


def _reason(document: PendingDocument, owner: str) -> str:
    return (
        f"{document.id} of {document.company} belongs to the company {owner}, which this run does not cover: "
        f"no two companies may share an identifier; for a record that moves, cover both, with --company {owner} too"
    )
