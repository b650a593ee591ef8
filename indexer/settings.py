"""The indexer's own settings."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.settings import setting


@dataclass(frozen=True)
class IndexerSettings:
    """How a build is sent, when it is refused, and what is kept."""

    bulk_documents: int = setting("BROKERAGE_BULK_DOCUMENTS", 500, "Documents in one bulk request, at most.")
    bulk_bytes: int = setting("BROKERAGE_BULK_BYTES", 5_000_000, "Source bytes after which a bulk request is sent.")
    bulks_in_flight: int = setting("BROKERAGE_BULKS_IN_FLIGHT", 2, "Bulk requests that are under way together.")
    retry_seconds: float = setting(
        "BROKERAGE_BULK_RETRY_SECONDS", 300.0, "Seconds after which an engine that stays away or overloaded ends a run."
    )
    dead_letter_limit: float = setting(
        "BROKERAGE_DEAD_LETTER_LIMIT", 0.01, "Share of bad records above which nothing is swapped; 10 always pass."
    )
    dead_letter_folder: str = setting("BROKERAGE_DEAD_LETTER_DIR", "dead-letters", "Folder of the dead-letter files.")
    kept_generations: int = setting(
        "BROKERAGE_KEPT_GENERATIONS", 2, "Generations kept of each index, the live one included."
    )
    refresh_interval: str = setting("BROKERAGE_REFRESH_INTERVAL", "1s", "Refresh interval of live indices.")
    merge: bool = setting(
        "BROKERAGE_MERGE_AFTER_BUILD", default=True, note="Merge a new generation into one segment before use."
    )
    green_seconds: int = setting(
        "BROKERAGE_GREEN_SECONDS", 60, "Seconds to wait for a new generation's replica before it is used without."
    )
    lock_wait_seconds: float = setting(
        "BROKERAGE_LOCK_WAIT_SECONDS",
        30.0,
        "Seconds to wait for another run; from 30 on, one that died on another host is taken over.",
    )
    write_wait_seconds: float = setting(
        "BROKERAGE_WRITE_WAIT_SECONDS", 600.0, "Seconds an update waits for another, or for the last stage of a build."
    )
    shrink_limit: float = setting(
        "BROKERAGE_SHRINK_LIMIT", 0.05, "Share of the live records that a build may lack; 10 always may go."
    )
    growth_limit: float = setting(
        "BROKERAGE_GROWTH_LIMIT", 0.5, "Share of the live records that a build may add; 10 always may come."
    )
    tombstone_days: int = setting("BROKERAGE_TOMBSTONE_DAYS", 30, "Days for which deletions are remembered.")
