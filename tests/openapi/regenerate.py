"""Renews what is kept of the OpenAPI document: `python -m tests.openapi.regenerate`.

The examples come first, since the document shows them.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import orjson

from mappings import RESOURCES
from sample import write_source
from service.openapi.document import encoded_document

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "openapi.json"
EXAMPLES = ROOT / "service" / "openapi" / "examples.json"

_DAY = dt.datetime(2026, 3, 14, 9, 26, 53, tzinfo=dt.UTC)
_LISTINGS = 40


def render_examples() -> bytes:
    """Return the examples: of each resource the first record that has the fewest empty members, long lists cut."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "sample"
        write_source(source, _LISTINGS, now=_DAY)
        examples = {resource.alias: _fullest(source / f"{resource.alias}.ndjson") for resource in RESOURCES}
    return orjson.dumps(examples, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _fullest(path: Path) -> dict[str, Any]:
    records: list[dict[str, Any]] = [orjson.loads(line)["record"] for line in path.read_bytes().splitlines()]
    fullest = max(records, key=lambda record: sum(value not in (None, []) for value in record.values()))
    return {name: value[:1] if isinstance(value, list) else value for name, value in fullest.items()}


if __name__ == "__main__":
    EXAMPLES.write_bytes(render_examples())
    DOCUMENT.write_bytes(encoded_document())
