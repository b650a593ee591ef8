"""Consumers of changes as the documents define them: the result of replaying a scope by sequence."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from mappings import COMPANY, TEAM
from mappings.stored_document import split_document_id
from tests.indexer.conftest import Bench
from tests.records import deletion, envelope

KEYS = ("a", "b", "c")
SCOPES = [frozenset(scope) for scope in ("a", "b", "c", "ab", "bc", "ac", "abc")]
COMPANIES = [envelope(COMPANY, {"platform_company_id": key, "numeric_id": None}) for key in KEYS]

# Names of records by identifier.
Copy = dict[str, str]


def team(identifier: str, company: str, moment: int, name: str | None = "same") -> dict[str, Any]:
    """Return the envelope of a team of a company at a second of a day; without a name, of its deletion."""
    updated_at = f"2026-01-01T{moment // 3600:02}:{moment // 60 % 60:02}:{moment % 60:02}Z"
    if name is None:
        return deletion(TEAM, identifier, updated_at) | {"platform_company_id": company}
    changes = {"uuid": identifier, "name": name}
    return envelope(TEAM, changes, updated_at=updated_at, platform_company_id=company)


class ConsumerView(NamedTuple):
    """What was live when a mark was published, and the reach of that mark."""

    sequence: int
    forgotten: int
    epoch: int
    documents: list[dict[str, Any]]  # by rising sequence, none behind the mark

    def copy(self, scope: Collection[str]) -> Copy:
        alive = [document for document in self.documents if not document["deleted"] and document["company"] in scope]
        return {document["id"]: document["record"]["name"] for document in alive}

    def replayed(self, known: Copy, since: int, scope: Collection[str]) -> Copy:
        """Apply every document of a scope after a position to a copy."""
        copy = dict(known)
        for document in self.documents:
            if document["sequence"] <= since or document["company"] not in scope or document.get("moved_to") in scope:
                continue
            if document["deleted"]:
                copy.pop(split_document_id(document["id"])[1], None)
            else:
                copy[document["id"]] = document["record"]["name"]
        return copy


async def read_view(bench: Bench) -> ConsumerView:
    """Return the live teams; every stamp must be at or below the mark."""
    mark = await bench.mark(TEAM)
    documents = sorted((await bench.served(TEAM)).values(), key=lambda document: document["sequence"])
    assert all(document["sequence"] <= mark.sequence and document["clock"] <= mark.clock for document in documents)
    return ConsumerView(mark.sequence, mark.forgotten, mark.epoch, documents)


def wrong_copies(now: ConsumerView, before: Iterable[ConsumerView]) -> list[tuple[int, list[str], Copy, Copy]]:
    """Return the scopes whose consumer ends with a wrong copy, starting from an earlier copy or from none."""
    starts = [(view.sequence, view) for view in before if view.epoch == now.epoch and view.sequence >= now.forgotten]
    found = []
    for scope in SCOPES:
        for since, start in [(0, None), *starts]:
            copy = now.replayed(start.copy(scope) if start else {}, since, scope)
            if copy != now.copy(scope):
                found.append((since, sorted(scope), copy, now.copy(scope)))
    return found


async def begin(bench: Bench, *teams: dict[str, Any]) -> ConsumerView:
    """Build the companies and the first teams."""
    summary = await bench.build({COMPANY: COMPANIES, TEAM: teams})
    assert summary.exit_code == 0, summary
    return await read_view(bench)


def move_documents(now: ConsumerView) -> dict[str, tuple[str, str, int]]:
    """Return reason, new company and sequence of each move."""
    found = [document for document in now.documents if "/" in document["id"]]
    return {document["id"]: (document["reason"], document["moved_to"], document["sequence"]) for document in found}
