"""How many shards and replicas an index is to have."""

import re
from dataclasses import dataclass
from typing import Any

from cluster.settings import SettingError
from mappings import RESOURCES
from mappings.shards.ranges import MAX_SHARDS

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
