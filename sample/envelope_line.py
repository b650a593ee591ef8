"""One line of a source file: a record in its envelope."""

from collections.abc import Mapping

import orjson

from sample.sample_clock import format_timestamp


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
