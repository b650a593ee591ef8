"""The state of indices as Elasticsearch reports it: write blocks, fragmentation, and where the copies of shards are.

At the flood stage Elasticsearch blocks writes to every index with a shard on a full disk, deletions of documents
included. It removes the block itself once there is space. If it is removed earlier, Elasticsearch sets it again at the
next check of its disks, by default every 30 seconds.

An updated record leaves a gap, a deleted document, where it was. A page whose records lie around a gap is read record
by record instead of in one sweep, so pages cost more and more until the segments are merged (decision 44).
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from elasticsearch import ApiError, AsyncElasticsearch, AuthorizationException

Result = TypeVar("Result")

FLOOD_BLOCK_SETTING = "index.blocks.read_only_allow_delete"
WRITE_BLOCKS = (FLOOD_BLOCK_SETTING, "index.blocks.write", "index.blocks.read_only")
# The number of the block of full disks; the status in front of it differs between versions.
_FLOOD_BLOCK = "/12/"
# A block of the whole service ends by itself: a node is starting, or a master is being elected.
_TRANSIENT = "[SERVICE_UNAVAILABLE/"
# Elasticsearch may set its block again between two requests.
_MAX_LIFTS = 3


def write_block(error: object) -> str:
    """Return the reason in the `error` of a response if it says that an index is blocked, otherwise an empty text."""
    if not isinstance(error, dict) or error.get("type") != "cluster_block_exception":
        return ""
    reason = str(error.get("reason"))
    return "" if _TRANSIENT in reason else reason.rstrip(";")


def is_flood_block(reason: str) -> bool:
    return _FLOOD_BLOCK in reason


async def lift_flood_block(client: AsyncElasticsearch, index: str) -> None:
    """Remove the block of full disks from an index, so that it accepts writes until Elasticsearch checks its disks."""
    await client.indices.put_settings(index=index, settings={FLOOD_BLOCK_SETTING: None})


class BlockedIndex(Exception):
    """The index refuses writes; the text says why and what to do."""


class BlockedWrites:
    """Small writes to one index that cannot wait for space: one that meets the block of full disks lifts it."""

    def __init__(self, client: AsyncElasticsearch, index: str) -> None:
        self.has_lifted = False
        self._client = client
        self._index = index

    async def run(self, write: Callable[[], Awaitable[Result]]) -> Result:
        """Run a write, again if the block of full disks had to be lifted; raise BlockedIndex for any other block."""
        lifts_left = _MAX_LIFTS
        while True:
            try:
                return await write()
            except ApiError as error:
                reason = refusal_reason(error)
                if not reason:
                    raise
                if not is_flood_block(reason) or not lifts_left:
                    raise BlockedIndex(
                        f"Elasticsearch rejects writes: {reason}. Remove the block from {self._index}."
                    ) from error
            lifts_left -= 1
            await self._lift()

    async def _lift(self) -> None:
        try:
            await lift_flood_block(self._client, self._index)
        except AuthorizationException as error:
            if reason := refusal_reason(error):
                raise BlockedIndex(f"Elasticsearch rejects writes: {reason}. Remove the block.") from error
            raise BlockedIndex(
                "Elasticsearch rejects writes because its disks are full, and this user lacks the privilege `manage` "
                f"on {self._index} to lift the block: free disk space, or let an administrator set "
                f"{FLOOD_BLOCK_SETTING} of {self._index} to null, and repeat the command immediately."
            ) from error
        self.has_lifted = True


def refusal_reason(error: ApiError) -> str:
    """Return why a write was refused if the index is blocked, otherwise an empty text."""
    return write_block(error.body.get("error") if isinstance(error.body, dict) else None)


# A copy of a shard is fragmented above this share of deleted documents: at 1%, pages cost nearly as much more as at
# 5%. Below this number of gaps they cost next to nothing more: one changed company of five justifies no merge.
MAX_DELETED, FEWEST_DELETED = 0.01, 100
# Segments cost little; only an index that was built without BROKERAGE_MERGE_AFTER_BUILD has more.
MAX_SEGMENTS = 50
FRAGMENTATION_METRICS = "docs,segments"
FRAGMENTATION_FILTER = "indices.*.shards.*.docs,indices.*.shards.*.segments.count"


@dataclass(frozen=True)
class IndexFragmentation:
    """The fragmentation of an index: that of its most fragmented copy of a shard, and how many shards are fragmented.

    `deleted` is the share of deleted documents, from 0 to 1.
    """

    deleted: float
    segments: int
    shards: int
    fragmented_shards: int

    @property
    def is_fragmented(self) -> bool:
        return self.fragmented_shards > 0


def read_fragmentation(shards: Mapping[str, Sequence[Mapping[str, Any]]]) -> IndexFragmentation:
    """Return the fragmentation of an index from its statistics: `shards` has the copies of each shard by its number."""
    worst = [(max(map(_deleted, copies)), max(map(_segments, copies))) for copies in shards.values() if copies]
    fragmented = [any(map(_is_fragmented, copies)) for copies in shards.values()]
    return IndexFragmentation(
        deleted=max((deleted for deleted, _ in worst), default=0.0),
        segments=max((segments for _, segments in worst), default=0),
        shards=len(worst),
        fragmented_shards=sum(fragmented),
    )


def _is_fragmented(copy: Mapping[str, Any]) -> bool:
    has_gaps = copy.get("docs", {}).get("deleted", 0) >= FEWEST_DELETED and _deleted(copy) > MAX_DELETED
    return has_gaps or _segments(copy) > MAX_SEGMENTS


def _deleted(copy: Mapping[str, Any]) -> float:
    docs = copy.get("docs", {})
    deleted, count = docs.get("deleted", 0), docs.get("count", 0)
    return float(deleted / (deleted + count)) if deleted else 0.0


def _segments(copy: Mapping[str, Any]) -> int:
    return int(copy.get("segments", {}).get("count", 0))


def fragmentation_sentence(fragmentation: IndexFragmentation) -> str:
    return (
        f"{fragmentation.fragmented_shards} of {fragmentation.shards} shards are fragmented: "
        f"{fragmentation.deleted:.1%} deleted documents, {fragmentation.segments} segments at most. "
        "Pages cost more than after a rebuild."
    )


SHARD_COLUMNS = ("index", "shard", "prirep", "state", "node", "store", "unassigned.reason")
AWARENESS_SETTING = "cluster.routing.allocation.awareness.attributes"
# Names that clusters commonly give to the attribute of a failure domain; without awareness they are only a hint.
_USUAL_ATTRIBUTES = ("zone", "availability_zone", "logical_availability_zone", "rack", "rack_id")
_PRIMARY, _STARTED = "p", frozenset({"STARTED", "RELOCATING"})
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
    used = next((name for name in names if any(name in attribute for attribute in attributes.values())), None)
    return {} if used is None else {node: str(attribute.get(used, "")) for node, attribute in attributes.items()}


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
