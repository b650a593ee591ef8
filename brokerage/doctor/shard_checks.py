"""The check of `brokerage doctor` of where shards are: on no node, all copies in one zone, too large."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from cluster.shard_placement import (
    SHARD_COLUMNS,
    ShardCopy,
    exposed_shards,
    large_shards,
    missing_copies,
    missing_shards,
    read_copies,
    zones_of,
)
from indexer.settings import SHARDS_SETTING, SIZE_SETTING
from service.errors import ApiError
from service.health.checks import Finding, FindingState, StatusReader, get_within_timeout, missing_privilege, run_check

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
    failure = await run_check(SHARDS, partial(_check, engine, names, gigabytes, found))
    return found or [failure]


async def _check(engine: StatusReader, names: Sequence[str], gigabytes: float, found: list[Finding]) -> Finding:
    path = f"/_cat/shards/{','.join(names)}?format=json&bytes=b&h={','.join(SHARD_COLUMNS)}"
    status, rows = await get_within_timeout(engine, path)
    if status != 200:
        return missing_privilege(SHARDS, "`monitor` on the cluster and on the aliases")
    copies = read_copies(rows)
    found += placement_findings(copies, await _zones(engine), gigabytes)
    return Finding(subject=SHARDS, detail=f"{sum(copy.is_primary for copy in copies)}, each where it should be")


async def _zones(engine: StatusReader) -> dict[str, str]:
    """Return the zone of each node; none if that cannot be read, which is not worth another finding."""
    try:
        nodes, settings = [await get_within_timeout(engine, path) for path in (_NODES, _SETTINGS)]
    except ApiError:
        return {}
    read: Mapping[str, Any] = nodes[1] if nodes[0] == 200 else {"nodes": {}}
    return zones_of(read["nodes"].values(), settings[1] if settings[0] == 200 else {})


def placement_findings(copies: Iterable[ShardCopy], zones: Mapping[str, str], gigabytes: float) -> Iterator[Finding]:
    """Yield a finding for each kind of problem of the shards."""
    copies = [*copies]
    divide = f"Raise {SHARDS_SETTING}, or set it to auto, and rebuild. {SIZE_SETTING} is {gigabytes:g}."
    kinds = [
        (FindingState.WRONG, "some are on no node", missing_shards(copies), _EXPLAIN),
        (FindingState.WARNING, "some lack a replica", missing_copies(copies), _EXPLAIN),
        (FindingState.WARNING, "some are in one zone only", exposed_shards(copies, zones), _AWARE),
        (FindingState.WARNING, "some are too large", large_shards(copies, gigabytes), divide),
    ]
    for state, problem, sentences, remedy in kinds:
        if detail := " ".join(sentences):
            yield Finding(subject=SHARDS, state=state, problem=problem, detail=detail, remedy=remedy)
