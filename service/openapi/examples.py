"""Records that the document shows: generated sample data of a fixed day, answered as the service answers them.

`python -m tests.openapi.renew` draws them anew into `examples.json`.
"""

from __future__ import annotations

import datetime as dt
from functools import cache
from importlib import resources
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson

from service.brief import briefs
from service.projection import Variant

if TYPE_CHECKING:
    from mappings.fields import View
    from mappings.resource import Resource

FILE = "examples.json"


def record(resource: Resource, view: View, *, underscored: bool) -> Any:
    """Return a record in a form of its resource, without what has to be asked for by flags."""
    return orjson.loads(form(resource, view, underscored=underscored).render(_records()[resource.alias]))


def form(resource: Resource, view: View, *, underscored: bool) -> Variant:
    """Return the form that a record is shown in: without what has to be asked for by flags."""
    return Variant(resource, view, underscored=underscored)


def brief(resource: Resource, *, underscored: bool) -> Any:
    """Return the same record under `timestamps_only`."""
    stored = _records()[resource.alias]
    modified = stored.get("ModificationTimestamp") or stored.get("modification_timestamp") or "2026-03-14T09:26:53Z"
    values = {field: (stored[name],) for name, field in resource.timestamps.items()}
    clock = int(dt.datetime.fromisoformat(modified).timestamp() * 1000)
    found = SimpleNamespace(**values, clock=(clock,), modified=(modified,))
    [encoded] = briefs(resource, [found], underscored=underscored)
    return orjson.loads(encoded)


@cache
def _records() -> dict[str, dict[str, Any]]:
    read: dict[str, dict[str, Any]] = orjson.loads(resources.files("service.openapi").joinpath(FILE).read_bytes())
    return read
