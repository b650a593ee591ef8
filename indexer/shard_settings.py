"""How many shards and replicas an index is to have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cluster.settings import SettingError
from mappings import RESOURCES
from mappings.shards.ranges import MAX_SHARDS

if TYPE_CHECKING:
    from indexer.settings import IndexerSettings

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
        for name in _NAMES:
            self.shards(name)
        if self.gigabytes <= 0:
            raise SettingError(f"A shard of {self.gigabytes:g} gigabytes is impossible: use a number above 0.")

    def shards(self, alias: str) -> int:
        """Return the number of shards that the index of a resource is to have, AUTO to fit its size."""
        numbers = {name: _number(text) for name, text in map(_entry, self.entries)}
        return numbers.get(alias, numbers.get("", 1))


def _entry(text: str) -> tuple[str, str]:
    """Return the alias, empty for all resources, and the number of an entry such as `listings=3`."""
    name, equals, number = text.rpartition("=")
    if equals and name not in _NAMES:
        raise SettingError(f"Shards are set for {name!r}; the resources are {', '.join(sorted(_NAMES))}.")
    return name, number


def _number(text: str) -> int:
    if text == "auto":
        return AUTO
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_SHARDS:
        return int(text)
    raise SettingError(
        f"{text!r} is not a number of shards: use 1 to {MAX_SHARDS:,}, or auto, for all resources or for some, as in "
        "listings=3,agents=auto."
    )


ONE_SHARD_EACH = ShardRequest()


def replica_settings(settings: IndexerSettings) -> dict[str, Any]:
    """Return the settings of a live index for its replicas; raise SettingError."""
    match = _REPLICAS.fullmatch(settings.replicas)
    if match is None:
        raise SettingError(
            f"BROKERAGE_REPLICAS is {settings.replicas!r}: use a number of replicas such as 1, or a range that follows "
            "the number of nodes such as 0-1."
        )
    if match["number"] is None:
        return {"index.auto_expand_replicas": settings.replicas}
    return {"index.auto_expand_replicas": False, "index.number_of_replicas": int(match["number"])}
