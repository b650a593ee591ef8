"""What `brokerage doctor` looks at in the cluster beyond what the service checks: keys, clocks, disks, replicas."""

from __future__ import annotations

import datetime as dt
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from elastic_transport import TransportError
from elasticsearch import ApiError, AuthorizationException
from rich.filesize import decimal

from indexer.preflight import FloodStage, keeps_indices
from service.keys.record import ApiKey, DamagedKey
from service.keys.store import KeyStore
from service.soundness import HEALTH, KEYS, Finding, State, asked, told, without_right

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings
    from service.indices import Indices
    from service.soundness import Asks

CLOCKS, DISKS, REPLICAS = "clocks", "disks", "replicas"
_STATS = "/_nodes/stats/fs?timeout=1s&filter_path=nodes.*.name,nodes.*.timestamp,nodes.*.roles,nodes.*.fs.total"
_WATERMARKS = "/_cluster/settings?include_defaults=true&flat_settings=true&filter_path=*.cluster*routing*disk*"
# `updated_since` without a value and the expiry of keys follow the service's clock, changes the indexer's.
_CLOCKS_APART_SECONDS = 5.0
# Share of a disk that may be left above the flood stage before it is told.
_NEAR = 0.05
_SINGLE_NODE = 1
# Keys that end sooner are told while there is time to rotate them.
_SOON = dt.timedelta(days=14)


async def keys_finding(client: AsyncElasticsearch, connection: ConnectionSettings) -> Finding:
    """Look at the keys, which needs `read` on them."""
    try:
        keys = await KeyStore(client, connection.keys_index).stored()
    except AuthorizationException:
        return without_right(KEYS, "`read` on `api_keys`")
    except (ApiError, TransportError) as error:
        problem = "could not be looked at in time"
        return Finding(subject=KEYS, state=State.UNKNOWN, problem=problem, detail=str(error.message))
    return key_finding(keys, dt.datetime.now(dt.UTC))


async def node_findings(engine: Asks, indices: Indices) -> list[Finding]:
    """Look at what the nodes tell of themselves, which needs `monitor` on the cluster."""
    return [
        await told(CLOCKS, partial(_clocks, engine)),
        await told(DISKS, partial(_disks, engine)),
        await told(REPLICAS, partial(_replicas, engine, indices)),
    ]


def key_finding(stored: Sequence[ApiKey | DamagedKey], now: dt.datetime) -> Finding:
    """Return whether there is a key that partners can use, and which of them end soon or cannot be read."""
    usable = [key for key in stored if isinstance(key, ApiKey) and key.usable(now)]
    damaged = [f"{key.key_id} ({key.problem})" for key in stored if isinstance(key, DamagedKey)]
    ending = sorted(f"{key.key_id} ({key.name})" for key in usable if key.expires and key.expires - now < _SOON)
    if damaged:
        return _warning("some are damaged", f"{', '.join(damaged)}.", "Revoke them, and create others.")
    if usable and ending:
        ends = "`brokerage keys rotate KEY_ID` makes another with the same grant, or let them end."
        return _warning("some end within 14 days", f"{', '.join(ending)}.", ends)
    if usable:
        return Finding(subject=KEYS, detail=f"{len(usable)} of {len(stored)} can be used")
    detail = f"All {len(stored)} are revoked or expired." if stored else "There is none."
    return _warning("none can be used", detail, "`brokerage keys create NAME --company C` makes one.")


def _warning(problem: str, detail: str, remedy: str) -> Finding:
    return Finding(subject=KEYS, state=State.WARNING, problem=problem, detail=detail, remedy=remedy)


async def _clocks(engine: Asks) -> Finding:
    before = time.time()
    status, answer = await asked(engine, _STATS)
    if status != 200:
        return without_right(CLOCKS, "`monitor` on the cluster")
    return clock_finding(answer["nodes"].values(), before, time.time())


def clock_finding(nodes: Iterable[Mapping[str, Any]], before: float, after: float) -> Finding:
    """Return whether the nodes' clocks are near this host's, which read these Unix seconds round their answer."""
    told = {node["name"]: node["timestamp"] / 1000 for node in nodes}
    apart = {name: max(clock - after, before - clock, 0.0) for name, clock in told.items()}
    wrong = sorted(name for name, seconds in apart.items() if seconds > _CLOCKS_APART_SECONDS)
    if not wrong:
        return Finding(subject=CLOCKS, detail=f"at most {max(apart.values(), default=0.0):.1f} s apart")
    return Finding(
        subject=CLOCKS,
        state=State.WARNING,
        problem="they differ",
        detail=", ".join(f"{name} is {apart[name]:.0f} s from this host" for name in wrong) + ".",
        remedy="Let all hosts follow one time server.",
    )


async def _disks(engine: Asks) -> Finding:
    status, stats = await asked(engine, _STATS)
    second, settings = await asked(engine, _WATERMARKS)
    if (status, second) != (200, 200):
        return without_right(DISKS, "`monitor` on the cluster")
    return disk_finding(stats["nodes"].values(), settings)


def disk_finding(nodes: Iterable[Mapping[str, Any]], settings: Mapping[str, Mapping[str, str]]) -> Finding:
    """Return whether every data node is well below the flood stage, at which Elasticsearch blocks writes."""
    stage = FloodStage(settings)
    room = {node["name"]: _room(node["fs"]["total"], stage) for node in nodes if keeps_indices(node["roles"])}
    near = sorted(name for name, (left, total) in room.items() if left < total * _NEAR)
    if not near:
        least = min((left for left, _ in room.values()), default=0)
        return Finding(subject=DISKS, detail=f"{decimal(least)} left below the flood stage")
    return Finding(
        subject=DISKS,
        state=State.WARNING,
        problem="nearly full",
        detail=", ".join(f"{name} can take {decimal(max(0, room[name][0]))} more" for name in near) + ".",
        remedy=f"Free disk space: at the flood stage ({stage.text}) updates and builds stop.",
    )


def _room(disk: Mapping[str, int], stage: FloodStage) -> tuple[int, int]:
    total = disk["total_in_bytes"]
    return disk["available_in_bytes"] - stage(total), total


async def _replicas(engine: Asks, indices: Indices) -> Finding:
    status, health = await asked(engine, HEALTH)
    if status != 200:
        return without_right(REPLICAS, "`monitor` on the cluster")
    return replica_finding(indices, health["number_of_data_nodes"])


def replica_finding(indices: Indices, data_nodes: int) -> Finding:
    """Return whether live indices have a replica where there is a second data node to put it on."""
    if data_nodes <= _SINGLE_NODE:
        return Finding(subject=REPLICAS, detail="none needed: there is one data node")
    live = {index: facts for found in indices.behind.values() for index, facts in (found or {}).items()}
    alone = sorted(index for index, facts in live.items() if facts["settings"].get("index.number_of_replicas") == "0")
    if not alone:
        return Finding(subject=REPLICAS, detail=f"{len(live)} indices on {data_nodes} data nodes")
    return Finding(
        subject=REPLICAS,
        state=State.WARNING,
        problem="some index has none",
        detail=f"{', '.join(alone)}: cannot be read while its only node is away.",
        remedy='`PUT INDEX/_settings` with {"index.auto_expand_replicas": "0-1"} adds it.',
    )
