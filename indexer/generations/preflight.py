"""Preflight checks before a run that writes: supported node versions, and enough disk space."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from elasticsearch import AsyncElasticsearch

from cluster.connection import unsupported_versions
from indexer.errors import ElasticsearchError, RefusedError

_DISK = "cluster.routing.allocation.disk."
_FLOOD_STAGE = f"{_DISK}watermark.flood_stage"
_HEADROOM = f"{_FLOOD_STAGE}.max_headroom"  # upper bound of what a percentage leaves free
_DEFAULT_FLOOD_STAGE = "95%"
_UNITS = "bkmgtp"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([bkmgtp])b?")
_GIGABYTE = 10**9


async def preflight(client: AsyncElasticsearch, *, needed_bytes: int, force: bool) -> list[str]:
    """Return the problems of a run that writes `needed_bytes`, one sentence each, and raise for any.

    Full disks are an ElasticsearchError, others a RefusedError. With `force` nothing is raised: the sentences say what
    was overridden.
    """
    info, stats, settings = await asyncio.gather(
        client.nodes.info(filter_path="nodes.*.name,nodes.*.version"),
        client.nodes.stats(metric="fs", filter_path="nodes.*.roles,nodes.*.fs.total"),
        client.cluster.get_settings(include_defaults=True, flat_settings=True, filter_path="*.cluster*routing*disk*"),
    )
    space = DiskSpace.of(stats["nodes"].values(), settings.body)
    problems = [*unsupported_versions(info["nodes"].values()), *space.problems(needed_bytes)]
    if problems and not force:
        raise ElasticsearchError(problems[-1]) if space.is_full else RefusedError(" ".join(problems))
    return problems


class DiskSpace(NamedTuple):
    """The most bytes that one data node can take before its disk reaches the `flood_stage`; negative above it."""

    room: int
    flood_stage: str

    @classmethod
    def of(cls, nodes: Iterable[Mapping[str, Any]], settings: Mapping[str, Mapping[str, str]]) -> Self:
        """`nodes` are those of the node statistics; `settings` are the cluster's, flat and with defaults."""
        disks = [node["fs"]["total"] for node in nodes if holds_indices(node["roles"])]
        flood_stage = FloodStage(settings)
        rooms = (disk["available_in_bytes"] - flood_stage(disk["total_in_bytes"]) for disk in disks)
        return cls(max(rooms, default=0), flood_stage.text)

    @property
    def is_full(self) -> bool:
        return self.room < 0

    def problems(self, needed_bytes: int) -> list[str]:
        """Return a sentence unless one data node can take `needed_bytes`."""
        if self.is_full:
            return [
                "Elasticsearch rejects writes while disks are full: no data node is below its flood stage "
                f"({self.flood_stage}). Free disk space."
            ]
        if self.room >= needed_bytes:
            return []
        return [
            f"{_gigabytes(needed_bytes)} of disk space are needed, but no data node can take more than "
            f"{_gigabytes(self.room)} before Elasticsearch blocks writes (flood stage {self.flood_stage}): free disk "
            "space."
        ]


def holds_indices(roles: Iterable[str]) -> bool:
    """Whether a node with these roles can store ordinary indices; a frozen tier has mounted snapshots only."""
    return any(role.partition("_")[0] == "data" and role != "data_frozen" for role in roles)


class FloodStage:
    """The bytes that the flood stage leaves free on a disk of a given size."""

    def __init__(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        chosen = {**settings.get("persistent", {}), **settings.get("transient", {})}
        defaults = dict(settings.get("defaults", {}))
        if _FLOOD_STAGE in chosen:
            # The headroom applies to the default percentage only, although it is still listed.
            defaults.pop(_HEADROOM, None)
        merged = defaults | chosen
        self.text = merged.get(_FLOOD_STAGE, _DEFAULT_FLOOD_STAGE)
        self._is_watched = merged.get(f"{_DISK}threshold_enabled", "true") == "true"
        self._most = parse_size(merged.get(_HEADROOM, "-1"))

    def __call__(self, total: int) -> int:
        """Return the free bytes below which Elasticsearch blocks writes on a disk of `total` bytes."""
        if not self._is_watched:
            return 0
        size = parse_size(self.text)
        if size is not None:
            return size
        share = total - int(total * parse_used_share(self.text))
        return share if self._most is None else min(share, self._most)


def parse_size(text: str) -> int | None:
    """Parse a size such as `500mb` or `1.5g` into bytes; None for a percentage or a disabled limit."""
    match = _SIZE.fullmatch(text.strip().lower())
    return int(float(match[1]) * 1024 ** _UNITS.index(match[2])) if match else None


def parse_used_share(text: str) -> float:
    """Parse a used share such as `95%` or `0.95`."""
    text = text.strip()
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def _gigabytes(size: int) -> str:
    return f"{size / _GIGABYTE:,.1f} GB"
