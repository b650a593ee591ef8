"""The settings of replication."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from cluster.settings import SettingError, setting

# Without one of these nothing would ever be asked; none of the others makes sense below 0.
_ABOVE_NOTHING = frozenset({"rate", "in_flight", "page_size", "keys_a_request", "timeout_seconds"})


@dataclass(frozen=True)
class ResoSettings:
    """How a RESO Web API is read."""

    token: str = setting("BROKERAGE_RESO_TOKEN", "", "Bearer token of the source.", secret=True)
    token_url: str = setting("BROKERAGE_RESO_TOKEN_URL", "", "Where OAuth client credentials are given for a token.")
    client_id: str = setting("BROKERAGE_RESO_CLIENT_ID", "", "Client of the source's OAuth.")
    client_secret: str = setting("BROKERAGE_RESO_CLIENT_SECRET", "", "Its secret.", secret=True)
    scope: str = setting("BROKERAGE_RESO_SCOPE", "", "The scope that is asked for; many sources need none.")
    rate: float = setting("BROKERAGE_RESO_RATE", 2.0, "Requests a second to the source, at most.")
    in_flight: int = setting("BROKERAGE_RESO_IN_FLIGHT", 4, "Requests to the source that are under way together.")
    page_size: int = setting("BROKERAGE_RESO_PAGE_SIZE", 1000, "Records a page; a source may send fewer.")
    keys_a_request: int = setting("BROKERAGE_RESO_KEYS", 50, "Records read by their keys in one request, at most.")
    patience_seconds: float = setting(
        "BROKERAGE_RESO_PATIENCE_SECONDS", 900.0, "Seconds after which a source that stays away ends a run."
    )
    timeout_seconds: float = setting("BROKERAGE_RESO_TIMEOUT_SECONDS", 120.0, "Seconds for one answer.")
    poll_seconds: float = setting("BROKERAGE_RESO_POLL_SECONDS", 30.0, "Seconds between two rounds with --follow.")
    overlap_seconds: float = setting(
        "BROKERAGE_RESO_OVERLAP_SECONDS", 600.0, "Seconds behind the newest change that are compared again."
    )
    event_margin: int = setting(
        "BROKERAGE_RESO_EVENT_MARGIN", 200, "Events behind the newest that are asked for again: some come late."
    )
    reconcile_hours: float = setting(
        "BROKERAGE_RESO_RECONCILE_HOURS", 24.0, "Hours between two comparisons of all keys; 0 compares in every round."
    )
    removal_limit: float = setting(
        "BROKERAGE_RESO_REMOVAL_LIMIT", 0.05, "Share of records that one comparison may remove; 10 always may go."
    )
    folder: str = setting("BROKERAGE_RESO_DIR", "replicas", "Folder of the mirrors of sources.")

    def __post_init__(self) -> None:
        """Raise SettingError for numbers that cannot be meant."""
        for declared in fields(self):
            value = getattr(self, declared.name)
            if isinstance(value, str) or (
                math.isfinite(value) and value >= 0 and (value or declared.name not in _ABOVE_NOTHING)
            ):
                continue
            least = "more than 0" if declared.name in _ABOVE_NOTHING else "at least 0"
            raise SettingError(f"{declared.metadata['variable']}={value} cannot be used: it must be {least}.")
