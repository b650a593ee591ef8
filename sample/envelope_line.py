"""One line of a source file: a record in its envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from sample.sample_clock import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping


def envelope_line(
    company: str, updated: int, record: Mapping[str, object], extras: Mapping[str, object] | None = None
) -> bytes:
    """Return the line of a record of `company` that was last changed at `updated`; `extras` are further members."""
    envelope = {
        "platform_company_id": company,
        "updated_at": format_timestamp(updated),
        **(extras or {}),
        "record": record,
    }
    return orjson.dumps(envelope, option=orjson.OPT_APPEND_NEWLINE)
