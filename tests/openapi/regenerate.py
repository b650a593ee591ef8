"""Renews what is kept of the OpenAPI document, the example of the map, and the page of settings.

`python -m tests.openapi.regenerate`

The examples come first, since the document shows them.
"""

import datetime as dt
import tempfile
from collections.abc import Iterator
from inspect import getdoc
from pathlib import Path
from typing import Any

import orjson

from brokerage.settings_types import settings_types
from cluster.settings import describe_settings
from mappings import RESOURCES
from sample import write_source
from service.capabilities import installed_capabilities
from service.openapi.document import encoded_document

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "openapi.json"
EXAMPLES = ROOT / "service" / "examples.json"
SETTINGS_PAGE = ROOT / "docs" / "operating" / "settings.md"
MAP_EXAMPLE = ROOT / "service" / "site" / "assets" / "map_example.json"

_DAY = dt.datetime(2026, 3, 14, 9, 26, 53, tzinfo=dt.UTC)
_LISTINGS = 40
_LISTINGS_ON_MAP = 400
# What the map shows of a listing.
_MAP_FIELDS = (
    *("Status", "ListPrice", "Address", "City", "PropertyType", "YearBuilt", "BedroomsTotal", "BathroomsTotal"),
    "LivingArea",
)


def render_examples() -> bytes:
    """Return the examples: of each resource the first record that has the fewest empty members, long lists cut."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "sample"
        write_source(source, _LISTINGS, now=_DAY)
        examples = {resource.alias: _fullest(source / f"{resource.alias}.ndjson") for resource in RESOURCES}
    return orjson.dumps(examples, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def render_map_example() -> bytes:
    """Return the listings that the map shows before a key is entered, as GeoJSON."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "sample"
        write_source(source, _LISTINGS_ON_MAP, now=_DAY)
        lines = (source / "listings.ndjson").read_bytes().splitlines()
    records = (orjson.loads(line)["record"] for line in lines)
    features = [_feature(record) for record in records if _is_shown(record)]
    return orjson.dumps({"type": "FeatureCollection", "features": features}, option=orjson.OPT_APPEND_NEWLINE)


def _is_shown(record: dict[str, Any]) -> bool:
    return record.get("Latitude") is not None and record["InternetAddressDisplayYN"] is not False


def _feature(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "Feature",
        "id": record["PlatformListingId"],
        "geometry": {"type": "Point", "coordinates": [float(record["Longitude"]), float(record["Latitude"])]},
        "properties": {name: record[name] for name in _MAP_FIELDS if record.get(name) is not None},
    }


def _fullest(path: Path) -> dict[str, Any]:
    records: list[dict[str, Any]] = [orjson.loads(line)["record"] for line in path.read_bytes().splitlines()]
    fullest = max(records, key=lambda record: sum(value not in (None, []) for value in record.values()))
    return {name: value[:1] if isinstance(value, list) else value for name, value in fullest.items()}


def render_settings() -> str:
    """Return docs/operating/settings.md: every setting by group, with its default and meaning."""
    return "\n".join(_settings_lines()) + "\n"


def _settings_lines() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield "`NAME_FILE` can name a file with the value of `NAME`. `brokerage settings` shows the values of this machine."
    for kind in settings_types({}):
        yield f"\n## {kind.__name__.removesuffix('Settings')}\n"
        yield f"{(getdoc(kind) or '').partition(chr(10))[0]}\n"
        yield "| variable | default | meaning |\n|---|---|---|"
        for setting in describe_settings(kind, {}):
            default = f"`{setting.value}`" if setting.value else ""
            note = setting.note.replace("|", "\\|").replace("<", "&lt;")
            yield f"| `{setting.variable}` | {default} | {note} |"


if __name__ == "__main__":
    SETTINGS_PAGE.write_text(render_settings(), encoding="utf-8")
    EXAMPLES.write_bytes(render_examples())
    MAP_EXAMPLE.write_bytes(render_map_example())
    DOCUMENT.write_bytes(encoded_document(installed_capabilities()))
