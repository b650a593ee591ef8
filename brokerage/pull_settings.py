"""The settings of `brokerage pull`."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.settings import setting


@dataclass(frozen=True)
class PullSettings:
    """How a copy of the data is kept by `brokerage pull`."""

    api_key: str = setting("BROKERAGE_API_KEY", "", "API key that `brokerage pull` reads with.", secret=True)
    attempts: int = setting("BROKERAGE_PULL_ATTEMPTS", 8, "Attempts in a row without progress, then a pull gives up.")
    verify_seconds: float = setting(
        "BROKERAGE_PULL_VERIFY_SECONDS", 3600.0, "Between two verifications while a pull follows."
    )
    export_seconds: float = setting(
        "BROKERAGE_PULL_EXPORT_SECONDS", 300.0, "Between two exports while a pull follows; each writes whole files."
    )
