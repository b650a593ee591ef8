"""Example records of the document: sample data of a fixed day, rendered as in responses.

`python -m tests.openapi.regenerate` rewrites `examples.json`.
"""

import datetime as dt
from functools import cache
from importlib import resources
from types import SimpleNamespace
from typing import Any

import orjson

from mappings.fields import View
from mappings.resource import Resource
from service.projection import Variant, encode_timestamps

EXAMPLES_FILE = "examples.json"


def example_record(resource: Resource, view: View, *, underscored: bool) -> Any:
    """Return a record in a form of its resource, without optional fields."""
    return orjson.loads(
        example_variant(resource, view, underscored=underscored).render(_stored_examples()[resource.alias])
    )


def example_variant(resource: Resource, view: View, *, underscored: bool) -> Variant:
    """Return the form of example records, without optional fields."""
    return Variant(resource, view, underscored=underscored)


def example_timestamps(resource: Resource, *, underscored: bool) -> Any:
    """Return the same record under `timestamps_only`."""
    stored = _stored_examples()[resource.alias]
    modified = stored.get("ModificationTimestamp") or stored.get("modification_timestamp") or "2026-03-14T09:26:53Z"
    values = {field: (stored[name],) for name, field in resource.timestamps.items()}
    clock = int(dt.datetime.fromisoformat(modified).timestamp() * 1000)
    doc_values = SimpleNamespace(**values, clock=(clock,), modified=(modified,))
    [encoded] = encode_timestamps(resource, [doc_values], underscored=underscored)
    return orjson.loads(encoded)


@cache
def _stored_examples() -> dict[str, dict[str, Any]]:
    stored: dict[str, dict[str, Any]] = orjson.loads(resources.files("service").joinpath(EXAMPLES_FILE).read_bytes())
    return stored
