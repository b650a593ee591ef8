"""Reads the field tables of the contract's text into `fields.json`: `python -m tests.contract.parse_spec SPEC`.

The fixture is what responses are compared with, so that the declarations cannot testify for themselves.
"""

import json
import re
import sys
from pathlib import Path

Fields = dict[str, str]

FIXTURE = Path(__file__).with_name("fields.json")
_SECTIONS = {
    "Listing (index, show, and sold variants)": "Listing",
    "Sold Listing": "SoldListing",
    "Agent": "Agent",
    "Office": "Office",
    "Team": "Team",
    "Company": "Company",
}


def tables(text: str) -> dict[str, dict[str, Fields]]:
    """Return, for each resource, the fields of its tables with the type cell, and the names declared untyped."""
    resources = text.split("## Resources and their fields")[1].split("\n## ", maxsplit=1)[0]
    found = {}
    for section in resources.split("\n### ")[1:]:
        heading, _, body = section.partition("\n")
        found[_SECTIONS[heading.strip()]] = {
            "fields": _table(body),
            "untyped": dict.fromkeys(_untyped(body), "untyped"),
        }
    return found


def _table(body: str) -> Fields:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", body, flags=re.MULTILINE)
    fields: Fields = {}
    for names, kind in rows:
        if names.strip() in {"Field", "---"}:
            continue
        fields |= dict.fromkeys((name.strip() for name in names.split(",")), kind.strip())
    return fields


def _untyped(body: str) -> list[str]:
    match = re.search(r"(?:declared without a type|Untyped agent fields)[^:]*: ([^.]+)\.", body)
    return [name.strip() for name in match[1].split(",")] if match else []


if __name__ == "__main__":
    FIXTURE.write_text(
        json.dumps(tables(Path(sys.argv[1]).read_text(encoding="utf-8")), indent=1) + "\n", encoding="utf-8"
    )
