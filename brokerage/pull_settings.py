"""The settings of `brokerage pull`."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.settings import setting


@dataclass(frozen=True)
class PullSettings:
    """The API key, retries and intervals of `brokerage pull`."""

    api_key: str = setting("BROKERAGE_API_KEY", "", "API key that `brokerage pull` reads with.", secret=True)
    attempts: int = setting("BROKERAGE_PULL_ATTEMPTS", 8, "Consecutive failed attempts before a pull gives up.")
    allow_http: bool = setting(
        "BROKERAGE_PULL_ALLOW_HTTP",
        default=False,
        note="Whether the key may be sent to another host without TLS, over a network that you trust.",
    )
    verify_seconds: float = setting(
        "BROKERAGE_PULL_VERIFY_SECONDS", 3600.0, "Seconds between verifications of a pull with --follow."
    )
    export_seconds: float = setting(
        "BROKERAGE_PULL_EXPORT_SECONDS",
        300.0,
        "Seconds between exports of a pull with --follow; each rewrites all files.",
    )
