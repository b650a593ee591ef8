"""Single lines, parsed into pending documents without Elasticsearch."""

from typing import Any

import orjson

from indexer.documents.builder import PendingDocument
from indexer.documents.companies import Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.settings import IndexerSettings
from indexer.source.lines import SourceLine
from mappings import Resource
from tests.records import COMPANY_KEY

COMPANIES = Companies(
    keys={COMPANY_KEY, "other"},
    keys_by_numeric_id={"4100": COMPANY_KEY, "7": "other"},
    reserved_keys=frozenset({COMPANY_KEY, "other", "99"}),
)
_DEFAULTS = IndexerSettings()


def search_fields(document: PendingDocument) -> dict[str, Any]:
    fields: dict[str, Any] = orjson.loads(document.stamped_source(1, 2))
    fields.pop("record", None)
    return fields


def parse_line(
    resource: Resource,
    sent: dict[str, Any] | bytes,
    chunk: ParsedChunk | None = None,
    settings: IndexerSettings = _DEFAULTS,
) -> PendingDocument:
    data = sent if isinstance(sent, bytes) else orjson.dumps(sent)
    return LineParser(resource, COMPANIES, settings).parse(SourceLine("file", 1, data), chunk or ParsedChunk())
