"""A folder with tables and column maps, and what the indexer reads from it."""

from pathlib import Path
from typing import Any

import orjson

from indexer import RejectedLine, open_source
from mappings import LISTING, Resource
from tests.indexer.parsed_lines import parse_line

HEAD = 'platform_company_id = "acme"\nupdated_at = "2026-01-01"\n'
LISTINGS = f'resource = "listings"\n{HEAD}'
IDENTIFIER = '[record]\nPlatformListingId = {column = "id"}\n'


def write_map(folder: Path, text: str, name: str = "map.toml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def lines_of(source: str, resource: Resource = LISTING) -> list[Any]:
    with open_source(source) as opened, opened.open(resource) as stream:
        return list(stream.lines)


def records_of(source: str, resource: Resource = LISTING) -> list[dict[str, Any]]:
    """Return the records of a resource, of which no line may be rejected."""
    lines = lines_of(source, resource)
    assert [line for line in lines if isinstance(line, RejectedLine)] == []
    return [orjson.loads(line.data)["record"] for line in lines]


def identifiers_of(source: str, resource: Resource = LISTING) -> list[str]:
    return [record[resource.identifier] for record in records_of(source, resource)]


def cell(folder: Path, declared: str, text: str, field: str, keys: str = "", **columns: str) -> Any:
    """Return the value of a field from a row whose column `x` has a text, or the fault; other columns by name.

    A value is one that the indexer accepts.
    """
    rows = [["id", "x", *columns], ["1", text, *columns.values()]]
    quoted = [",".join('"' + one.replace('"', '""') + '"' for one in row) for row in rows]
    (folder / "table.csv").write_text("\n".join(quoted), encoding="utf-8")
    name = write_map(folder, f'{LISTINGS}file = "table.csv"\n{keys}{IDENTIFIER}{field} = {declared}\n')
    [line] = lines_of(name)
    if isinstance(line, RejectedLine):
        return line.error.reason
    envelope = orjson.loads(line.data)
    value = envelope["record"].get(field)
    envelope["record"].setdefault("Status", "Active")
    parse_line(LISTING, envelope)
    return value
