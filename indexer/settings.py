"""Settings of the indexer, and the context that every operation of it shares."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from elasticsearch import AsyncElasticsearch

from cluster.client import Cluster
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError, setting
from mappings import RESOURCES
from mappings.shards import MAX_SHARDS

SHARDS_SETTING, SIZE_SETTING, REPLICAS_SETTING = "BROKERAGE_SHARDS", "BROKERAGE_SHARD_GB", "BROKERAGE_REPLICAS"
AUTO = 0
_REPLICAS = re.compile(r"(?P<number>[0-9]{1,3})|[0-9]{1,3}-([0-9]{1,3}|all)")
_NAMES = frozenset(resource.alias for resource in RESOURCES)


@dataclass(frozen=True)
class ShardRequest:
    """How many shards the indices of full rebuilds have: `3`, `auto`, or by resource, as in `listings=3`.

    With `auto` a shard has at most `gigabytes`.
    """

    entries: tuple[str, ...] = ("1",)
    gigabytes: float = 30.0

    def __post_init__(self) -> None:
        """Raise SettingError for invalid entries."""
        names = [name for name, _ in map(_entry, self.entries)]
        if len({*names}) < len(names):
            raise SettingError(f"{SHARDS_SETTING}={','.join(self.entries)} gives two numbers for the same resources.")
        if not self.entries:
            raise SettingError(f"{SHARDS_SETTING} is empty: use {_POSSIBLE}.")
        if not self.gigabytes > 0:
            raise SettingError(f"{SIZE_SETTING} is {self.gigabytes:g}: use a number of gigabytes above 0.")

    def shards(self, alias: str) -> int:
        """Return the number of shards that the index of a resource is to have, AUTO to fit its size."""
        numbers = dict(map(_entry, self.entries))
        return numbers.get(alias, numbers.get("", 1))


_POSSIBLE = (
    f"a number from 1 to {MAX_SHARDS:,}, or auto, for all resources or for some, as in 2 or listings=8,agents=auto"
)


def _entry(text: str) -> tuple[str, int]:
    """Return the alias, empty for all resources, and the number of an entry such as `listings=3`."""
    name, equals, number = text.rpartition("=")
    if equals and name not in _NAMES:
        raise SettingError(f"{SHARDS_SETTING} names {name!r}; the resources are {', '.join(sorted(_NAMES))}.")
    if number == "auto":
        return name, AUTO
    if number.isascii() and number.isdecimal() and 1 <= int(number) <= MAX_SHARDS:
        return name, int(number)
    raise SettingError(f"{SHARDS_SETTING} has {text!r}, which is not a number of shards: use {_POSSIBLE}.")


def replica_settings(replicas: str) -> dict[str, Any]:
    """Return the settings of a live index for a number or range of replicas; raise SettingError."""
    match = _REPLICAS.fullmatch(replicas)
    if match is None:
        raise SettingError(
            f"{REPLICAS_SETTING} is {replicas!r}: use a number of replicas such as 1, or a range that follows the "
            "number of nodes such as 0-1."
        )
    if match["number"] is None:
        return {"index.auto_expand_replicas": replicas}
    return {"index.auto_expand_replicas": False, "index.number_of_replicas": int(match["number"])}


TroublePolicy: TypeAlias = Literal["off_market", "withhold", "keep"]


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
        "BROKERAGE_MAX_RECORD_BYTES", 10_000_000, "Bytes of a source's line above which it is a bad record."
    )
    max_record_depth: int = setting(
        "BROKERAGE_MAX_RECORD_DEPTH", 64, "Nesting of a field without a declared shape above which it is a bad record."
    )
    dead_letter_limit: float = setting(
        "BROKERAGE_DEAD_LETTER_LIMIT", 0.01, "Share of invalid records above which a build is refused; 10 always pass."
    )
    dead_letter_folder: str = setting("BROKERAGE_DEAD_LETTER_DIR", "dead-letters", "Folder of the dead-letter files.")
    kept_generations: int = setting(
        "BROKERAGE_KEPT_GENERATIONS", 2, "Versions to keep of each index, including the live one."
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
        "BROKERAGE_MERGE_AFTER_BUILD", default=True, note="Merge a new index version into one segment before use."
    )
    publishes_after_swap: bool = setting(
        "BROKERAGE_PUBLISH_AFTER_SWAP",
        default=False,
        note="Run `index publish` once a rebuild is live.",
    )
    green_seconds: int = setting(
        "BROKERAGE_GREEN_SECONDS", 60, "Seconds to wait for the replica of a new version before going live without it."
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
    tombstone_days: int = setting("BROKERAGE_TOMBSTONE_DAYS", 30, "Days for which deletions are kept for consumers.")
    history_days: int = setting(
        "BROKERAGE_HISTORY_DAYS",
        1095,
        "Days for which changes of prices and statuses are kept; older ones go when a record is next written.",
    )
    trouble_policy: TroublePolicy = setting(  # noqa: RUF009 - a field, as the others
        "BROKERAGE_TROUBLE_POLICY",
        "off_market",
        "What becomes of a record whose newest line cannot be read: off_market (of a listing that is for sale), "
        "withhold or keep.",
    )
    trouble_hours: float = setting(
        "BROKERAGE_TROUBLE_HOURS", 2.0, "Hours for which such a record is still served as before."
    )
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


@dataclass(frozen=True)
class IndexerContext:
    """A client, its connection settings and the indexer's settings. The caller closes the client.

    `client` sends a request once; `cluster` repeats it while Elasticsearch is away, for BROKERAGE_BULK_RETRY_SECONDS.
    """

    client: AsyncElasticsearch
    connection: ConnectionSettings
    settings: IndexerSettings

    @cached_property
    def cluster(self) -> Cluster:
        """The client for requests that may arrive twice."""
        return Cluster.over(self.client, self.settings.retry_seconds)

    @property
    def shards(self) -> ShardRequest:
        """How many shards the indices of full rebuilds have."""
        return ShardRequest(self.settings.shards, self.settings.shard_gigabytes)
