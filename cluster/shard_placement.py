"""Where the copies of shards are, from Elasticsearch's `_cat/shards`, and what an operator should know of it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SHARD_COLUMNS = ("index", "shard", "prirep", "state", "node", "store", "unassigned.reason")
AWARENESS_SETTING = "cluster.routing.allocation.awareness.attributes"
# Names that clusters commonly give to the attribute of a failure domain; without awareness they are only a hint.
_USUAL_ATTRIBUTES = ("zone", "availability_zone", "logical_availability_zone", "rack", "rack_id")
_PRIMARY, _UNASSIGNED, _STARTED = "p", "UNASSIGNED", frozenset({"STARTED", "RELOCATING"})
_GIGABYTE = 1e9
# A shard may grow between two rebuilds; beyond this share of its size it is to be divided.
_FAR_OVER = 1.5
_SHOWN = 5
_SEVERAL = 2


@dataclass(frozen=True)
class ShardCopy:
    """One copy of a shard: `node` is empty and `size`, in bytes, 0 for one that is on no node."""

    index: str
    shard: int
    is_primary: bool
    is_started: bool
    node: str = ""
    size: int = 0
    reason: str = ""


def read_copies(rows: Iterable[Mapping[str, str | None]]) -> list[ShardCopy]:
    """Parse rows of `_cat/shards` with SHARD_COLUMNS and sizes in bytes."""
    return [
        ShardCopy(
            index=str(row["index"]),
            shard=int(row["shard"] or 0),
            is_primary=row["prirep"] == _PRIMARY,
            is_started=row["state"] in _STARTED,
            # That of a shard that moves is followed by where it moves to.
            node=(row.get("node") or "").split(" ")[0],
            size=int(row.get("store") or 0),
            reason=row.get("unassigned.reason") or "",
        )
        for row in rows
    ]


def zones_of(nodes: Iterable[Mapping[str, Any]], settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the failure domain of each node, from its attributes; empty if there is no such attribute.

    `nodes` have `name` and `attributes`; `settings` are the cluster's, flat. The attributes that shard allocation is
    aware of count, otherwise one with a usual name.
    """
    chosen = [settings.get(kind, {}).get(AWARENESS_SETTING) for kind in ("transient", "persistent", "defaults")]
    names = _names(next(filter(None, chosen), "")) or _USUAL_ATTRIBUTES
    attributes = {str(node["name"]): node.get("attributes", {}) for node in nodes}
    used = next((name for name in names if any(name in each for each in attributes.values())), None)
    return {} if used is None else {node: str(each.get(used, "")) for node, each in attributes.items()}


def _names(value: Any) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else [*value]


def missing_shards(copies: Iterable[ShardCopy]) -> Iterator[str]:
    """Yield a sentence for each index with shards of which no copy can be read."""
    for index, shards in _by_shard(copies).items():
        lost = {number: found for number, found in shards.items() if not any(copy.is_started for copy in found)}
        if lost:
            reasons = sorted({copy.reason for found in lost.values() for copy in found if copy.reason})
            yield (
                f"{index}: no node has {_shards(lost)} of {len(shards)}{_because(reasons)}. Requests that need "
                f"{'it' if len(lost) == 1 else 'them'} get 503."
            )


def missing_copies(copies: Iterable[ShardCopy]) -> Iterator[str]:
    """Yield a sentence for each index with shards that can be read and lack a replica."""
    for index, shards in _by_shard(copies).items():
        lacking = {
            number: found
            for number, found in shards.items()
            if any(copy.is_started for copy in found) and not all(copy.is_started for copy in found)
        }
        if lacking:
            reasons = sorted({copy.reason for found in lacking.values() for copy in found if copy.reason})
            lack = "lacks" if len(lacking) == 1 else "lack"
            yield f"{index}: {_shards(lacking)} of {len(shards)} {lack} a replica{_because(reasons)}."


def exposed_shards(copies: Iterable[ShardCopy], zones: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each index with shards whose copies are all in one of several zones."""
    if len({*zones.values()}) < _SEVERAL:
        return
    for index, shards in _by_shard(copies).items():
        inside = {
            number: {zones.get(copy.node, "") for copy in found}
            for number, found in shards.items()
            if len(found) >= _SEVERAL and all(copy.is_started for copy in found)
        }
        exposed = [number for number, places in inside.items() if len(places) < _SEVERAL]
        if exposed:
            yield f"{index}: all copies of {_shards(exposed)} of {len(shards)} are in one zone."


def large_shards(copies: Iterable[ShardCopy], gigabytes: float) -> Iterator[str]:
    """Yield a sentence for each index with shards far above `gigabytes`."""
    for index, shards in _by_shard(copies).items():
        sizes = {number: max(copy.size for copy in found) / _GIGABYTE for number, found in shards.items()}
        large = {number: size for number, size in sizes.items() if size > gigabytes * _FAR_OVER}
        if large:
            have = "has" if len(large) == 1 else "have"
            yield f"{index}: {_shards(large)} of {len(shards)} {have} up to {max(large.values()):,.0f} GB."


def _by_shard(copies: Iterable[ShardCopy]) -> dict[str, dict[int, list[ShardCopy]]]:
    found: dict[str, dict[int, list[ShardCopy]]] = defaultdict(lambda: defaultdict(list))
    for copy in copies:
        found[copy.index][copy.shard].append(copy)
    return {index: dict(sorted(shards.items())) for index, shards in sorted(found.items())}


def _shards(numbers: Collection[int]) -> str:
    shown = [str(number) for number in sorted(numbers)[:_SHOWN]]
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"shard{'' if len(numbers) == 1 else 's'} {', '.join(shown)}{more}"


def _because(reasons: Sequence[str]) -> str:
    return f" ({', '.join(reasons)})" if reasons else ""
