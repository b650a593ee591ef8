"""Single lines, brought to drafts without an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from indexer.companies import Companies
from indexer.intake import Chunk, Intake
from indexer.source import Line
from tests.records import COMPANY_KEY

if TYPE_CHECKING:
    from indexer.documents import Draft
    from mappings import Resource

COMPANIES = Companies(
    keys={COMPANY_KEY, "other"},
    numbers={"4100": COMPANY_KEY, "7": "other"},
    claimed=frozenset({COMPANY_KEY, "other", "99"}),
)


def search_fields(draft: Draft) -> dict[str, Any]:
    """Return what a draft's document is found by, under the stamp 1, 2."""
    fields: dict[str, Any] = orjson.loads(draft.source(1, 2))
    fields.pop("record", None)
    return fields


def accept(resource: Resource, sent: dict[str, Any] | bytes, chunk: Chunk | None = None) -> Draft:
    """Return the draft of one envelope."""
    data = sent if isinstance(sent, bytes) else orjson.dumps(sent)
    return Intake(resource, COMPANIES).accept(Line("file", 1, data), chunk or Chunk())
