"""Times of the last change that a source leaves out: they follow `updated_at` of the envelope."""

import datetime as dt
from collections.abc import Callable
from typing import Any

from mappings import Resource
from mappings.fields import FieldKind


def update_time_filler(resource: Resource) -> Callable[[Any], None]:
    """Return the function that completes the record of an envelope."""
    kinds = {field.name: field.kind for field in resource.stored if field.is_update_time}

    def fill(envelope: Any) -> None:
        record = envelope.record
        for name, kind in kinds.items():
            if getattr(record, name) is None:
                setattr(record, name, _time(envelope.updated_at, kind))

    return fill


def _time(moment: dt.datetime, kind: FieldKind) -> str | int:
    if kind is FieldKind.UNIX:
        return int(moment.timestamp())
    return moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"
