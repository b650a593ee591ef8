"""Settings of the indexer."""

from dataclasses import dataclass

from cluster.settings import setting
from indexer.shard_settings import REPLICAS_SETTING, SHARDS_SETTING, SIZE_SETTING, ShardRequest, replica_settings


@dataclass(frozen=True)
class IndexerSettings:
    """Bulk requests, limits on what may be swapped in, waits, and retention."""

    bulk_documents: int = setting("BROKERAGE_BULK_DOCUMENTS", 500, "Maximum documents in one bulk request.")
    bulk_bytes: int = setting("BROKERAGE_BULK_BYTES", 5_000_000, "Maximum source bytes in one bulk request.")
    bulks_in_flight: int = setting("BROKERAGE_BULKS_IN_FLIGHT", 2, "Maximum concurrent bulk requests.")
    retry_seconds: float = setting(
        "BROKERAGE_BULK_RETRY_SECONDS", 300.0, "Seconds to retry while Elasticsearch is unreachable or overloaded."
    )
    max_record_bytes: int = setting(
        "BROKERAGE_MAX_RECORD_BYTES", 10_000_000, "Bytes of a source's line above which it is a dead letter."
    )
    max_record_depth: int = setting(
        "BROKERAGE_MAX_RECORD_DEPTH", 64, "Nesting of a field without a declared shape above which it is a dead letter."
    )
    dead_letter_limit: float = setting(
        "BROKERAGE_DEAD_LETTER_LIMIT", 0.01, "Share of invalid records above which a build is refused; 10 always pass."
    )
    dead_letter_folder: str = setting("BROKERAGE_DEAD_LETTER_DIR", "dead-letters", "Folder of the dead-letter files.")
    kept_generations: int = setting(
        "BROKERAGE_KEPT_GENERATIONS", 2, "Generations to keep of each index, including the live one."
    )
    refresh_interval: str = setting("BROKERAGE_REFRESH_INTERVAL", "1s", "Refresh interval of live indices.")
    shards: tuple[str, ...] = setting(
        SHARDS_SETTING,
        ("1",),
        "Shards of each index from the next full rebuild on: a number or auto, by resource as in listings=8,agents=2.",
    )
    shard_gigabytes: float = setting(
        SIZE_SETTING, 30.0, "Gigabytes of one shard, above which auto takes another; estimated from the source's size."
    )
    replicas: str = setting(
        REPLICAS_SETTING, "0-1", "Replicas of live indices: a number, or a range that follows the nodes."
    )
    merge: bool = setting(
        "BROKERAGE_MERGE_AFTER_BUILD", default=True, note="Merge a new generation into one segment before use."
    )
    publishes_after_swap: bool = setting(
        "BROKERAGE_PUBLISH_AFTER_SWAP",
        default=False,
        note="Run `index publish` to BROKERAGE_EXPORTS once a rebuild is live.",
    )
    green_seconds: int = setting(
        "BROKERAGE_GREEN_SECONDS", 60, "Seconds to wait for a new generation's replica before going live without it."
    )
    lock_wait_seconds: float = setting(
        "BROKERAGE_LOCK_WAIT_SECONDS",
        30.0,
        "Seconds to wait for another run; from 30 on, a run that died on another host is taken over.",
    )
    write_wait_seconds: float = setting(
        "BROKERAGE_WRITE_WAIT_SECONDS", 600.0, "Seconds an update waits for another, or for a build's last stage."
    )
    shrink_limit: float = setting(
        "BROKERAGE_SHRINK_LIMIT", 0.05, "Share of a company's live records that a rebuild may remove; 10 always may."
    )
    growth_limit: float = setting(
        "BROKERAGE_GROWTH_LIMIT", 0.5, "Share of the live records that a rebuild may add; 10 may always be added."
    )
    tombstone_days: int = setting("BROKERAGE_TOMBSTONE_DAYS", 30, "Days for which tombstones are kept.")
    future_seconds: float = setting(
        "BROKERAGE_FUTURE_SECONDS",
        86_400.0,
        "Seconds that a time of the source may be ahead of this host's clock; later ones make a record invalid.",
    )
    clock_seconds: float = setting(
        "BROKERAGE_CLOCK_SECONDS",
        120.0,
        "Seconds that this host's clock may differ from Elasticsearch's; beyond, the indexer does not write.",
    )

    def __post_init__(self) -> None:
        """Raise SettingError at the first invalid number of shards or replicas."""
        ShardRequest(self.shards, self.shard_gigabytes)
        replica_settings(self.replicas)
