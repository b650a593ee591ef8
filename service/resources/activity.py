"""Whether an index answers the records in use or the deactivated ones (decisions, `deactivated`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.query import Clause, absent, since, window_start

if TYPE_CHECKING:
    from collections.abc import Mapping


def activity(sent: Mapping[str, Any]) -> Clause:
    """Return the clause for `deactivated` and `deactivated_since`."""
    if not sent["deactivated"]:
        return absent("deactivated")
    begins = sent["deactivated_since"]
    return since("deactivated", window_start() if begins is None else begins)
