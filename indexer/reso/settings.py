"""Settings of replication from a RESO Web API."""

import math
from dataclasses import dataclass, fields

from cluster.settings import SettingError, setting

# At 0, these would stop all requests; the other numbers may be 0.
_POSITIVE = frozenset({"rate", "in_flight", "page_size", "keys_per_request", "max_body_mib", "timeout_seconds"})


@dataclass(frozen=True)
class ResoSettings:
    """Access to a source, request limits and intervals."""

    token: str = setting("BROKERAGE_RESO_TOKEN", "", "Bearer token of the source.", secret=True)
    token_url: str = setting(
        "BROKERAGE_RESO_TOKEN_URL", "", "OAuth token endpoint: for client credentials, a user name, or a refresh token."
    )
    username: str = setting("BROKERAGE_RESO_USERNAME", "", "User name, for sources with the OAuth password grant.")
    password: str = setting("BROKERAGE_RESO_PASSWORD", "", "Password of that user.", secret=True)
    refresh_token: str = setting(
        "BROKERAGE_RESO_REFRESH_TOKEN",
        "",
        "First OAuth refresh token, if the provider gave you one; those that follow are kept in the mirror.",
        secret=True,
    )
    client_id: str = setting("BROKERAGE_RESO_CLIENT_ID", "", "OAuth client ID.")
    client_secret: str = setting("BROKERAGE_RESO_CLIENT_SECRET", "", "OAuth client secret.", secret=True)
    scope: str = setting("BROKERAGE_RESO_SCOPE", "", "OAuth scope to request; many sources need none.")
    allow_http: bool = setting(
        "BROKERAGE_RESO_ALLOW_HTTP",
        default=False,
        note="Whether tokens and secrets may be sent to another host without TLS, over a network that you trust.",
    )
    rate: float = setting("BROKERAGE_RESO_RATE", 2.0, "Maximum requests per second to the source.")
    hourly_requests: int = setting(
        "BROKERAGE_RESO_HOURLY_REQUESTS",
        0,
        "Maximum requests in any hour, kept across restarts; 0: the limit of the profile, if it has one.",
    )
    daily_requests: int = setting(
        "BROKERAGE_RESO_DAILY_REQUESTS",
        0,
        "Maximum requests in any 24 hours, kept across restarts; 0: the limit of the profile, if it has one.",
    )
    hourly_mib: int = setting(
        "BROKERAGE_RESO_HOURLY_MIB",
        0,
        "Maximum decompressed MiB in any hour, kept across restarts; 0: the limit of the profile, if it has one.",
    )
    in_flight: int = setting("BROKERAGE_RESO_IN_FLIGHT", 4, "Maximum concurrent requests to the source.")
    page_size: int = setting("BROKERAGE_RESO_PAGE_SIZE", 1000, "Records per page; the source may send fewer.")
    keys_per_request: int = setting("BROKERAGE_RESO_KEYS", 50, "Maximum records requested by key in one request.")
    retry_seconds: float = setting(
        "BROKERAGE_RESO_PATIENCE_SECONDS", 900.0, "Seconds of failed retries after which the run exits."
    )
    max_body_mib: int = setting(
        "BROKERAGE_RESO_MAX_BODY_MIB", 64, "Maximum size of one response of the source, decompressed, in MiB."
    )
    timeout_seconds: float = setting("BROKERAGE_RESO_TIMEOUT_SECONDS", 120.0, "Timeout of one request, in seconds.")
    poll_seconds: float = setting("BROKERAGE_RESO_POLL_SECONDS", 30.0, "Seconds between rounds with --follow.")
    overlap_seconds: float = setting(
        "BROKERAGE_RESO_OVERLAP_SECONDS", 600.0, "Seconds before the newest change that each round compares again."
    )
    event_margin: int = setting(
        "BROKERAGE_RESO_EVENT_MARGIN",
        200,
        "Events before the newest that each round reads again: some become visible late.",
    )
    reconcile_hours: float = setting(
        "BROKERAGE_RESO_RECONCILE_HOURS",
        24.0,
        "Hours between comparisons of all keys; 0: in every round.",
    )
    verify_hours: float = setting(
        "BROKERAGE_RESO_VERIFY_HOURS",
        2.0,
        "Hours within which each key is compared again, in slices, if the source has no events of it; 0: only in the "
        "comparisons of all keys.",
    )
    removal_limit: float = setting(
        "BROKERAGE_RESO_REMOVAL_LIMIT", 0.05, "Share of records that one comparison may remove; 10 are always allowed."
    )
    folder: str = setting("BROKERAGE_RESO_DIR", "replicas", "Folder for the mirrors of sources.")

    def __post_init__(self) -> None:
        """Raise SettingError for numbers out of range."""
        for declared in fields(self):
            value = getattr(self, declared.name)
            if isinstance(value, str) or (
                math.isfinite(value) and value >= 0 and (value or declared.name not in _POSITIVE)
            ):
                continue
            least = "more than 0" if declared.name in _POSITIVE else "at least 0"
            raise SettingError(f"{declared.metadata['variable']}={value} cannot be used: it must be {least}.")
