"""What the cluster holds, as `brokerage doctor` checks it: keys, nodes, shards, blocks, records and the audit.

The checks that the service makes itself are in `service.health`. A restored index has the blocks that it had when it
was backed up. Times in the future come from a wrong clock of the indexer or of a source.
"""

import datetime as dt
import os
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from elastic_transport import TransportError
from elasticsearch import ApiError, AsyncElasticsearch, AuthorizationException
from rich.filesize import decimal

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark, overdue_sentence, total_troubles, troubles_sentence
from cluster.index_state import (
    FLOOD_BLOCK_SETTING,
    SHARD_COLUMNS,
    WRITE_BLOCKS,
    ShardCopy,
    exposed_shards,
    large_shards,
    missing_copies,
    missing_shards,
    read_copies,
    zones_of,
)
from cluster.settings import load_settings
from indexer.clock import is_ahead, now_milliseconds, version_microseconds
from indexer.generations.lifecycle import future_query
from indexer.generations.preflight import FloodStage, holds_indices
from indexer.settings import SHARDS_SETTING, SIZE_SETTING, IndexerSettings
from mappings import RESOURCES
from mappings.fields import MAX_BYTES, RULE, is_identifier
from mappings.indices import BLOCK_NOTE, BLOCK_SETTING
from mappings.shards import LEFT_QUERY
from service.errors import ApiError as EngineError
from service.health.checks import (
    CLUSTER_HEALTH_PATH,
    CONTROL_SUBJECT,
    KEYS_SUBJECT,
    Finding,
    IndexInventory,
    StatusReader,
    get_within_timeout,
    missing_privilege,
    read_standing,
    run_check,
    unknown,
    warning,
    wrong,
)
from service.keys.api_key import ApiKey, DamagedKey
from service.keys.store import KeyStore

CLOCKS, DISKS, REPLICAS, TROUBLES = "clocks", "disks", "replicas", "troubles"
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

    async def check() -> Finding:
        return key_finding(await KeyStore(client, connection.keys_index).list_all(), dt.datetime.now(dt.UTC))

    return await _read_and_check(KEYS_SUBJECT, "`read` on `api_keys`", check)


async def troubles_finding(engine: StatusReader, connection: ConnectionSettings, hours: float) -> Finding:
    """Return whether records are not served as their source says. Requires `read` on the control index."""
    total = total_troubles((await read_standing(engine, connection)).values())
    if not total.count:
        return Finding(subject=TROUBLES, detail="every record is served as its source says")
    said = f"{troubles_sentence(total)} {overdue_sentence(total, hours)}".rstrip()
    return warning(TROUBLES, "some records differ", said, "See `brokerage index troubles`.")


async def _read_and_check(subject: str, needed: str, check: Callable[[], Awaitable[Finding]]) -> Finding:
    """Return the finding of a check, or one that names the privilege it needs, or that Elasticsearch did not answer."""
    try:
        return await check()
    except AuthorizationException:
        return missing_privilege(subject, needed)
    except (ApiError, TransportError) as error:
        return unknown(subject, "could not be read", str(error.message))


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
        return warning(KEYS_SUBJECT, "some are damaged", f"{', '.join(damaged)}.", "Revoke them and create new ones.")
    if usable and expiring:
        remedy = "Create a successor with `brokerage keys rotate KEY_ID`, or let them expire."
        return warning(KEYS_SUBJECT, "some expire within 14 days", f"{', '.join(expiring)}.", remedy)
    if usable:
        return Finding(subject=KEYS_SUBJECT, detail=f"{len(usable)} of {len(stored)} are usable")
    detail = f"All {len(stored)} are revoked or expired." if stored else "There are no keys."
    return warning(KEYS_SUBJECT, "none is usable", detail, "Create one with `brokerage keys create NAME --company C`.")


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
    return warning(
        CLOCKS,
        "they differ",
        ", ".join(f"{name} is {apart[name]:.0f} s from this host" for name in wrong) + ".",
        "Synchronize all hosts with the same time server.",
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
    return warning(
        DISKS,
        "nearly full",
        ", ".join(f"{name} has {decimal(max(0, room[name][0]))} left" for name in near) + ".",
        f"Free disk space: updates and builds stop at the flood stage ({stage.text}).",
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
    return warning(
        REPLICAS,
        "some indices have none",
        f"{', '.join(alone)}: unavailable while their only node is down.",
        'Add one: `PUT INDEX/_settings` with {"index.auto_expand_replicas": "0-1"}.',
    )


SHARDS = "shards"
_NODES = "/_nodes/_all/_none?timeout=1s&filter_path=nodes.*.name,nodes.*.attributes"
_SETTINGS = "/_cluster/settings?include_defaults=true&flat_settings=true&filter_path=*.cluster*awareness*"
_EXPLAIN = "`GET _cluster/allocation/explain` says why."
_AWARE = "Set `cluster.routing.allocation.awareness.attributes` to the attribute of the nodes that names their zone."


async def shard_findings(engine: StatusReader, names: Sequence[str], gigabytes: float) -> list[Finding]:
    """Check the shards of indices or aliases. Requires `monitor` on the cluster and on the names."""
    if not names:
        return []
    found = list[Finding]()
    failure = await run_check(SHARDS, partial(_check_shards, engine, names, gigabytes, found))
    return found or [failure]


async def _check_shards(engine: StatusReader, names: Sequence[str], gigabytes: float, found: list[Finding]) -> Finding:
    path = f"/_cat/shards/{','.join(names)}?format=json&bytes=b&h={','.join(SHARD_COLUMNS)}"
    status, rows = await get_within_timeout(engine, path)
    if status != 200:
        return missing_privilege(SHARDS, "`monitor` on the cluster and on the aliases")
    copies = read_copies(rows)
    found += _placement_findings(copies, await _zones(engine), gigabytes)
    return Finding(subject=SHARDS, detail=f"{sum(copy.is_primary for copy in copies)}, each where it should be")


async def _zones(engine: StatusReader) -> dict[str, str]:
    """Return the zone of each node; none if that cannot be read, which is not worth another finding."""
    try:
        nodes, settings = [await get_within_timeout(engine, path) for path in (_NODES, _SETTINGS)]
    except EngineError:
        return {}
    read: Mapping[str, Any] = nodes[1] if nodes[0] == 200 else {"nodes": {}}
    return zones_of(read["nodes"].values(), settings[1] if settings[0] == 200 else {})


def _placement_findings(copies: Iterable[ShardCopy], zones: Mapping[str, str], gigabytes: float) -> Iterator[Finding]:
    copies = [*copies]
    divide = f"Raise {SHARDS_SETTING}, or set it to auto, and rebuild. {SIZE_SETTING} is {gigabytes:g}."
    kinds = [
        (wrong, "some are on no node", missing_shards(copies), _EXPLAIN),
        (warning, "some lack a replica", missing_copies(copies), _EXPLAIN),
        (warning, "some are in one zone only", exposed_shards(copies, zones), _AWARE),
        (warning, "some are too large", large_shards(copies, gigabytes), divide),
    ]
    for state, problem, sentences, remedy in kinds:
        if detail := " ".join(sentences):
            yield state(SHARDS, problem, detail, remedy)


def block_findings(indices: IndexInventory, connection: ConnectionSettings) -> Iterator[Finding]:
    subjects = {connection.alias(resource): resource.alias for resource in RESOURCES}
    subjects |= {connection.keys_index: KEYS_SUBJECT, connection.control_index: CONTROL_SUBJECT}
    for name, subject in subjects.items():
        for index, facts in (indices.by_name[name] or {}).items():
            for setting in WRITE_BLOCKS:
                if facts["settings"].get(setting) == "true":
                    yield _block_finding(subject, index, setting, facts)


def _block_finding(subject: str, index: str, setting: str, facts: Mapping[str, Any]) -> Finding:
    copy = facts["mappings"].get("_meta", {}).get(BLOCK_NOTE) if setting == BLOCK_SETTING else None
    lift = f'`PUT {index}/_settings` with {{"{setting}": null}} lifts it.'
    if copy:
        detail = f"{index} is being copied to {copy}, or the rebuild that copied it was killed."
        remedy = "If no rebuild runs, the next update or rebuild lifts the block: run either."
    elif setting == FLOOD_BLOCK_SETTING:
        detail = f"{setting} of {index} is true: disks are full, or were when it was backed up."
        remedy = f"Free disk space: Elasticsearch lifts the block within a minute. If it does not, {lift}"
    else:
        detail = f"{setting} of {index} is true, and the indexer did not set it."
        remedy = lift
    return warning(subject, "its index refuses updates", detail, remedy)


IDENTIFIERS = "identifiers"
_CANDIDATES, _EXAMPLES = 100, 3
_SECONDS = "4s"  # for one resource
# What today's alphabet lacks of what earlier versions accepted, by the field `<company>:<identifier>`: control
# characters beyond ASCII, and more bytes than fit, which take characters of four bytes.
_PATTERN = f".*[\u0080-\u009f].*|.{{{MAX_BYTES // 4},}}&.*[^\u0000-\uffff].*"
_OUTSIDE = [{"regexp": {"feed_key": {"value": _PATTERN}}}, {"ids": {"values": [".", ".."]}}]
_QUERY = {
    "bool": {"must_not": [{"term": {"deleted": True}}, LEFT_QUERY], "should": _OUTSIDE, "minimum_should_match": 1}
}


async def identifier_finding(client: AsyncElasticsearch, connection: ConnectionSettings) -> Finding:
    """Check the identifiers of live records, at most 100 suspects of each resource. Requires `read` on the indices."""

    async def check() -> Finding:
        answers = {one.alias: await _suspects(client, connection.alias(one)) for one in RESOURCES}
        found = {name: _outside(answer) for name, answer in answers.items()}
        is_whole = not any(answer["timed_out"] for answer in answers.values())
        outside = {name: identifiers for name, identifiers in found.items() if identifiers}
        return _unreachable_records(outside, is_whole=is_whole)

    return await _read_and_check(IDENTIFIERS, "`read` on the indices", check)


async def _suspects(client: AsyncElasticsearch, alias: str) -> Any:
    return await client.search(
        index=alias,
        query=_QUERY,
        size=_CANDIDATES,
        timeout=_SECONDS,
        source=False,
        track_total_hits=False,
        ignore_unavailable=True,
    )


def _outside(answer: Any) -> list[str]:
    return [hit["_id"] for hit in answer["hits"]["hits"] if not is_identifier(hit["_id"])]


def _unreachable_records(found: Mapping[str, list[str]], *, is_whole: bool) -> Finding:
    """Return whether live records have identifiers that cannot be requested, from those found by resource."""
    if not found and not is_whole:
        return unknown(IDENTIFIERS, f"too many to look at within {_SECONDS} for each resource")
    if not found:
        return Finding(subject=IDENTIFIERS, detail="all can be requested")
    return warning(
        IDENTIFIERS,
        "some records cannot be requested",
        "; ".join(f"{name}: {_listed(identifiers)}" for name, identifiers in found.items())
        + f". An identifier {RULE}.",
        "Give them other identifiers at the source, delete the old ones with `brokerage index update`, or "
        "rebuild with `brokerage index reindex`. `brokerage index verify SOURCE` lists all of them.",
    )


def _listed(identifiers: list[str]) -> str:
    return f"{len(identifiers)} or more, {', '.join(map(ascii, identifiers[:_EXAMPLES]))}"


MARKS, RECORD_TIMES = "watermarks", "record times"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# A run publishes what it has written within seconds, and within a few minutes after Elasticsearch was away.
_UNPUBLISHED_SECONDS = 600


async def time_findings(
    client: AsyncElasticsearch, connection: ConnectionSettings, marks: Mapping[str, Mark], live: Container[str] = ()
) -> list[Finding]:
    """Check the watermarks, by alias, and the times of live records. Requires `read` on the indices.

    `live` has the aliases of the loaded resources.
    """
    settings = load_settings(IndexerSettings, os.environ)
    aliases = {one.alias: connection.alias(one) for one in RESOURCES}
    known = {name: marks[alias] for name, alias in aliases.items() if alias in marks}

    async def watermarks() -> Finding:
        if missing := [name for name, alias in aliases.items() if alias in live and alias not in marks]:
            return _missing_marks(missing)
        unpublished = {name: await _count_unpublished(client, aliases[name], mark) for name, mark in known.items()}
        return _mark_finding(known, settings.clock_seconds, unpublished)

    async def records() -> Finding:
        query = future_query(settings.future_seconds)
        found = {name: await _dated_hits(client, alias, query) for name, alias in aliases.items()}
        return _record_finding({name: hits for name, hits in found.items() if hits["total"]["value"]})

    privilege = "`read` on the indices"
    return [
        await _read_and_check(MARKS, privilege, watermarks),
        await _read_and_check(RECORD_TIMES, privilege, records),
    ]


async def _count_unpublished(client: AsyncElasticsearch, alias: str, mark: Mark) -> int:
    """Return how many documents a run has written that ended before it published them."""
    before = now_milliseconds() - 1_000 * _UNPUBLISHED_SECONDS
    ranges = [{"range": {"sequence": {"gt": mark.sequence}}}, {"range": {"clock": {"lte": before}}}]
    hits = await _dated_hits(client, alias, {"bool": {"filter": ranges}})
    return int(hits["total"]["value"])


async def _dated_hits(client: AsyncElasticsearch, alias: str, query: Mapping[str, Any]) -> Any:
    """Return the first hits of a query with their versions, none without an index."""
    answer = await client.search(
        index=alias,
        query=query,
        size=_EXAMPLES,
        source=False,
        docvalue_fields=[{"field": "version"}],
        track_total_hits=True,
        ignore_unavailable=True,
    )
    return answer["hits"]


def _missing_marks(names: list[str]) -> Finding:
    return warning(
        MARKS,
        "loaded resources have none, so consumers cannot follow them",
        f"{', '.join(names)}.",
        "`brokerage index restored` or the next `brokerage index update` creates them. If it persists, grant "
        "the service's user `read` on `control`.",
    )


def _mark_finding(marks: Mapping[str, Mark], tolerated_seconds: float, unpublished: Mapping[str, int]) -> Finding:
    """Return whether watermarks are in the future or behind what was written, from both by resource."""
    if ahead := {name: mark.clock for name, mark in marks.items() if is_ahead(mark.clock, tolerated_seconds)}:
        return warning(
            MARKS,
            "some are in the future, from a run under a wrong clock",
            ", ".join(f"{name} {_minute(clock * 1000)}" for name, clock in ahead.items()) + ".",
            f"Run `brokerage index repair-clock {' '.join(ahead)}`.",
        )
    if behind := {name: count for name, count in unpublished.items() if count}:
        return warning(
            MARKS,
            "a run was stopped between writing records and publishing them: consumers that start to read changes now "
            "miss them",
            ", ".join(f"{name}: {count:,}" for name, count in behind.items()) + ".",
            "Repeat the run, or send any `brokerage index update` of the resource: it publishes them first.",
        )
    return Finding(subject=MARKS, detail="none is in the future, or behind what was written")


def _record_finding(found: Mapping[str, Any]) -> Finding:
    """Return whether live records are dated in the future, from the hits by resource."""
    if not found:
        return Finding(subject=RECORD_TIMES, detail="none is in the future")
    return warning(
        RECORD_TIMES,
        "some records are dated in the future",
        "; ".join(f"{name}: {hits['total']['value']:,}, {_dated_examples(hits)}" for name, hits in found.items()) + ".",
        "Correct `updated_at` at the source, then send them again with `brokerage index update`, or rebuild "
        "with `brokerage index reindex`: every state with a right time replaces them.",
    )


def _dated_examples(hits: Any) -> str:
    versions = {hit["_id"]: hit["fields"]["version"][0] for hit in hits["hits"]}
    return ", ".join(f"{name} ({_minute(version_microseconds(version))})" for name, version in versions.items())


def _minute(microseconds: int) -> str:
    return (_EPOCH + dt.timedelta(microseconds=microseconds)).strftime("%Y-%m-%d %H:%M UTC")
