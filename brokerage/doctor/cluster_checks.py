"""The cluster checks of `brokerage doctor` that the service does not make: keys, clocks, disks, replicas."""

import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from elastic_transport import TransportError
from elasticsearch import ApiError, AsyncElasticsearch, AuthorizationException
from rich.filesize import decimal

from cluster.connection import ConnectionSettings
from cluster.token_keys import TOKEN_KEYS_ID
from indexer.generations.preflight import FloodStage, holds_indices
from service.feed.token import read_token_sealer
from service.health.checks import (
    CLUSTER_HEALTH_PATH,
    KEYS_SUBJECT,
    Finding,
    FindingState,
    IndexInventory,
    StatusReader,
    get_within_timeout,
    missing_privilege,
    run_check,
)
from service.keys.api_key import ApiKey, DamagedKey
from service.keys.store import KeyStore
from service.search.engine import SearchEngine

CLOCKS, DISKS, REPLICAS, TOKENS = "clocks", "disks", "replicas", "tokens"
_STATS = "/_nodes/stats/fs?timeout=1s&filter_path=nodes.*.name,nodes.*.timestamp,nodes.*.roles,nodes.*.fs.total"
_WATERMARKS = "/_cluster/settings?include_defaults=true&flat_settings=true&filter_path=*.cluster*routing*disk*"
# Key expiry and the default of `updated_since` use the service's clock, timestamps of changes the indexer's.
_MAX_CLOCK_SKEW_SECONDS = 5.0
# A warning is due when less than this share of a disk is left below the flood stage.
_LOW_SPACE_SHARE = 0.05
_SINGLE_NODE = 1
# Keys that expire sooner are reported, while there is time to rotate them.
_EXPIRY_WARNING = dt.timedelta(days=14)


async def keys_finding(client: AsyncElasticsearch, connection: ConnectionSettings) -> Finding:
    """Check the API keys. Requires `read` on their index."""
    try:
        keys = await KeyStore(client, connection.keys_index).list_all()
    except AuthorizationException:
        return missing_privilege(KEYS_SUBJECT, "`read` on `api_keys`")
    except (ApiError, TransportError) as error:
        problem = "could not be read"
        return Finding(subject=KEYS_SUBJECT, state=FindingState.UNKNOWN, problem=problem, detail=str(error.message))
    return key_finding(keys, dt.datetime.now(dt.UTC))


async def token_finding(engine: SearchEngine, connection: ConnectionSettings) -> Finding:
    """Check the keys that seal tokens of changes, snapshots and events. Requires `read` on `control`."""

    async def check() -> Finding:
        sealer = await read_token_sealer(engine, connection.control_index)
        return Finding(subject=TOKENS, detail="can be issued") if sealer else _no_token_keys(connection)

    return await run_check(TOKENS, check)


def _no_token_keys(connection: ConnectionSettings) -> Finding:
    return Finding(
        subject=TOKENS,
        state=FindingState.WARNING,
        problem="changes and snapshots are refused: the keys of tokens are missing",
        detail=f"{connection.control_index} has no document {TOKEN_KEYS_ID}.",
        remedy="The next `brokerage index update` or `brokerage index reindex SOURCE` creates it.",
    )


async def node_findings(engine: StatusReader, indices: IndexInventory) -> list[Finding]:
    """Check the nodes: clocks, disks and replicas. Requires `monitor` on the cluster."""
    return [
        await run_check(CLOCKS, partial(_clocks, engine)),
        await run_check(DISKS, partial(_disks, engine)),
        await run_check(REPLICAS, partial(_replicas, engine, indices)),
    ]


def key_finding(stored: Sequence[ApiKey | DamagedKey], now: dt.datetime) -> Finding:
    """Return whether any key is usable, and which keys expire soon or are damaged."""
    usable = [key for key in stored if isinstance(key, ApiKey) and key.is_usable(now)]
    damaged = [f"{key.key_id} ({key.problem})" for key in stored if isinstance(key, DamagedKey)]
    expiring = sorted(
        f"{key.key_id} ({key.name})" for key in usable if key.expires and key.expires - now < _EXPIRY_WARNING
    )
    if damaged:
        return _warning("some are damaged", f"{', '.join(damaged)}.", "Revoke them and create new ones.")
    if usable and expiring:
        remedy = "Create a successor with `brokerage keys rotate KEY_ID`, or let them expire."
        return _warning("some expire within 14 days", f"{', '.join(expiring)}.", remedy)
    if usable:
        return Finding(subject=KEYS_SUBJECT, detail=f"{len(usable)} of {len(stored)} are usable")
    detail = f"All {len(stored)} are revoked or expired." if stored else "There are no keys."
    return _warning("none is usable", detail, "Create one with `brokerage keys create NAME --company C`.")


def _warning(problem: str, detail: str, remedy: str) -> Finding:
    return Finding(subject=KEYS_SUBJECT, state=FindingState.WARNING, problem=problem, detail=detail, remedy=remedy)


async def _clocks(engine: StatusReader) -> Finding:
    before = time.time()
    status, stats = await get_within_timeout(engine, _STATS)
    if status != 200:
        return missing_privilege(CLOCKS, "`monitor` on the cluster")
    return clock_finding(stats["nodes"].values(), before, time.time())


def clock_finding(nodes: Iterable[Mapping[str, Any]], before: float, after: float) -> Finding:
    """Compare node clocks with this host's Unix time before and after the request."""
    clocks = {node["name"]: node["timestamp"] / 1000 for node in nodes}
    apart = {name: max(clock - after, before - clock, 0.0) for name, clock in clocks.items()}
    wrong = sorted(name for name, seconds in apart.items() if seconds > _MAX_CLOCK_SKEW_SECONDS)
    if not wrong:
        return Finding(subject=CLOCKS, detail=f"at most {max(apart.values(), default=0.0):.1f} s apart")
    return Finding(
        subject=CLOCKS,
        state=FindingState.WARNING,
        problem="they differ",
        detail=", ".join(f"{name} is {apart[name]:.0f} s from this host" for name in wrong) + ".",
        remedy="Synchronize all hosts with the same time server.",
    )


async def _disks(engine: StatusReader) -> Finding:
    status, stats = await get_within_timeout(engine, _STATS)
    second, settings = await get_within_timeout(engine, _WATERMARKS)
    if (status, second) != (200, 200):
        return missing_privilege(DISKS, "`monitor` on the cluster")
    return disk_finding(stats["nodes"].values(), settings)


def disk_finding(nodes: Iterable[Mapping[str, Any]], settings: Mapping[str, Mapping[str, str]]) -> Finding:
    """Return whether every data node has room below the flood stage, at which Elasticsearch blocks writes."""
    stage = FloodStage(settings)
    room = {node["name"]: _room(node["fs"]["total"], stage) for node in nodes if holds_indices(node["roles"])}
    near = sorted(name for name, (left, total) in room.items() if left < total * _LOW_SPACE_SHARE)
    if not near:
        least = min((left for left, _ in room.values()), default=0)
        return Finding(subject=DISKS, detail=f"{decimal(least)} left below the flood stage")
    return Finding(
        subject=DISKS,
        state=FindingState.WARNING,
        problem="nearly full",
        detail=", ".join(f"{name} has {decimal(max(0, room[name][0]))} left" for name in near) + ".",
        remedy=f"Free disk space: updates and builds stop at the flood stage ({stage.text}).",
    )


def _room(disk: Mapping[str, int], stage: FloodStage) -> tuple[int, int]:
    total = disk["total_in_bytes"]
    return disk["available_in_bytes"] - stage(total), total


async def _replicas(engine: StatusReader, indices: IndexInventory) -> Finding:
    status, health = await get_within_timeout(engine, CLUSTER_HEALTH_PATH)
    if status != 200:
        return missing_privilege(REPLICAS, "`monitor` on the cluster")
    return replica_finding(indices, health["number_of_data_nodes"])


def replica_finding(indices: IndexInventory, data_nodes: int) -> Finding:
    """Return whether live indices have replicas; none is needed with a single data node."""
    if data_nodes <= _SINGLE_NODE:
        return Finding(subject=REPLICAS, detail="none needed: there is one data node")
    live = {index: facts for found in indices.by_name.values() for index, facts in (found or {}).items()}
    alone = sorted(index for index, facts in live.items() if facts["settings"].get("index.number_of_replicas") == "0")
    if not alone:
        return Finding(subject=REPLICAS, detail=f"{len(live)} indices on {data_nodes} data nodes")
    return Finding(
        subject=REPLICAS,
        state=FindingState.WARNING,
        problem="some indices have none",
        detail=f"{', '.join(alone)}: unavailable while their only node is down.",
        remedy='Add one: `PUT INDEX/_settings` with {"index.auto_expand_replicas": "0-1"}.',
    )
