"""The history of a record: what its remembered members were, and what the Data Dictionary derives from it.

The indexer adds an entry when it writes a state that differs from the live one. So every entry is a change that was
seen; of the time before the first load, only the source knows. Times are those of the source.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import msgspec

from mappings.fields import Field, date_time, number, string
from mappings.listing import ON_MARKET_STATUSES
from mappings.resource import ChangeGroup, Resource

# Of one record; the last change of each group is kept beyond it.
_MAX_CHANGES = 50
_PRICE = ChangeGroup("price").number


class Replaced(msgspec.Struct, array_like=True, frozen=True):
    """The values that a change of a group replaced: of those of its remembered members that differ, by their place.

    It has none if the change left these members as they were. `at` is the source's time of the state with the change in
    milliseconds since 1970, 0 if it has none.
    """

    at: int
    group: int
    before: dict[int, Any]


class Past(msgspec.Struct, array_like=True, frozen=True):
    """The search field `past` of a record that has changed since its creation.

    `first_seen` is the clock of its creation. `changes` are those of groups with remembered members, the oldest first.
    `first_price` is the first price, if the change that replaced it is not among them.
    """

    first_seen: int
    changes: list[Replaced] = []
    first_price: Any = None

    def encode(self) -> str:
        """Return the value of the search field."""
        return base64.b64encode(_encode_past(self)).decode()

    def before(self, group: int) -> dict[int, Any]:
        """Return the values that the last change of a group replaced."""
        return next((one.before for one in reversed(self.changes) if one.group == group), {})

    @property
    def count(self) -> int:
        """The number of values that changes replaced: the search field `history_count`."""
        return sum(len(one.before) for one in self.changes)

    def followed_by(self, changes: Iterable[Replaced]) -> Self:
        """Return the past with later changes; of a group's changes that replaced nothing, only the last one counts."""
        later = list(changes)
        groups = {one.group for one in later}
        kept = [one for one in self.changes if one.before or one.group not in groups]
        return type(self)(self.first_seen, [*kept, *later], self.first_price)

    def since(self, oldest: int) -> Self:
        """Return the past without the changes before a time in milliseconds since 1970, and without too many.

        What is left of a group has no gap, so that each change ends where the next one begins.
        """
        last = {one.group: at for at, one in enumerate(self.changes)}.values()
        first = max(0, len(self.changes) - _MAX_CHANGES)
        while first < len(self.changes) and self.changes[first].at < oldest:
            first += 1
        kept = [one for at, one in enumerate(self.changes) if at >= first or at in last]
        if len(kept) == len(self.changes):
            return self
        prices = [one.before[0] for one in self.changes if one.group == _PRICE and one.before.get(0) is not None]
        first_price = prices[0] if self.first_price is None and prices else self.first_price
        return type(self)(self.first_seen, kept, first_price)


_encode_past = msgspec.msgpack.Encoder().encode
_decode_past = msgspec.msgpack.Decoder(Past).decode


def decode_past(encoded: str) -> Past | None:
    """Return the past of a document, None if it has none."""
    return _decode_past(base64.b64decode(encoded)) if encoded else None


class Change(NamedTuple):
    """A change of a record: when, of which group, and its members that differ, before and after.

    `at` is in milliseconds since 1970, None if the source has no time.
    """

    at: int | None
    group: ChangeGroup
    previous: dict[str, Any]
    new: dict[str, Any]


def changes_of(resource: Resource, past: Past | None, present: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the changes that replaced a value, the newest first; `present` are the present values of the members."""
    values = {**present}
    for one in reversed(past.changes if past else ()):
        if (group := resource.change_groups.get(one.group)) is not None and one.before:
            previous = {group.remembered[place]: value for place, value in one.before.items()}
            yield Change(one.at or None, group, previous, {name: values.get(name) for name in previous})
            values |= previous


# The members of an envelope's `history`, by which a source says itself what was before, and what is derived otherwise.
DICTIONARY_FIELDS: tuple[Field, ...] = (
    number("OriginalListPrice", "The first asking price in US dollars."),
    number("PreviousListPrice", "The asking price before the last change of it, in US dollars."),
    date_time("PriceChangeTimestamp", "When the asking price last changed."),
    date_time("StatusChangeTimestamp", "When the status last changed."),
    string("MajorChangeType", "The last change of price or status, as the Data Dictionary calls it."),
    date_time("MajorChangeTimestamp", "When that was."),
    date_time("OnMarketTimestamp", "When the listing last came on the market."),
    date_time("OffMarketTimestamp", "When the listing last left the market."),
)
PRICE_CHANGE, BACK_ON_MARKET = "Price Change", "Back On Market"
# The Data Dictionary's names of statuses, also in its lookup ChangeType. It has none for others.
_NAMES = {name: name for name in ("Active", "Pending", "Expired", "Canceled", "Withdrawn")} | {
    "Contingent": "Active Under Contract",
    "ComingSoon": "Coming Soon",
    "Sold": "Closed",
    "TempOffMarket": "Hold",
}


def standard_status(status: str | None) -> str | None:
    """Return the Data Dictionary's name of a status; our own if it has none."""
    return None if status is None else _NAMES.get(status, status)


def change_type(change: Change) -> str | None:
    """Return what the Data Dictionary calls a change of the asking price or the status, None if it has no name."""
    if "ListPrice" in change.previous:
        return PRICE_CHANGE
    if "Status" not in change.previous:
        return None
    was_on, is_on = _on_market(change)
    is_back = is_on and not was_on and change.previous["Status"] != "ComingSoon"
    return BACK_ON_MARKET if is_back else _NAMES.get(change.new["Status"])


def _on_market(change: Change) -> tuple[bool, bool]:
    return change.previous["Status"] in ON_MARKET_STATUSES, change.new["Status"] in ON_MARKET_STATUSES


def dictionary_values(
    resource: Resource, past: Past | None, given: Mapping[str, Any] | None, present: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of `DICTIONARY_FIELDS`, those that are known; times are in milliseconds since 1970.

    `given` are those that the source states, which count before those that are derived.
    """
    found: dict[str, Any] = {}
    for change in changes_of(resource, past, present):
        for name, value in _derived(change):
            found.setdefault(name, value)
        if (price := change.previous.get("ListPrice")) is not None:
            found["OriginalListPrice"] = price
    if past is not None and past.first_price is not None:
        found["OriginalListPrice"] = past.first_price
    stated = dict(given or {})
    for pair in _PAIRS:
        if not pair.isdisjoint(stated):
            found = {name: value for name, value in found.items() if name not in pair}
    return {name: value for name, value in (found | stated).items() if value is not None}


# Of these, a source states both or none: one that it states does not go with another one that is derived.
_PAIRS = (
    frozenset({"PreviousListPrice", "PriceChangeTimestamp"}),
    frozenset({"MajorChangeType", "MajorChangeTimestamp"}),
)


def _derived(change: Change) -> Iterator[tuple[str, Any]]:
    """Yield what follows from a change if no later one says otherwise."""
    if "ListPrice" in change.previous:
        yield "PreviousListPrice", change.previous["ListPrice"]
        yield "PriceChangeTimestamp", change.at
        yield "OriginalListPrice", change.new["ListPrice"]  # if there was none before
    if "Status" in change.previous:
        yield "StatusChangeTimestamp", change.at
        was_on, is_on = _on_market(change)
        if was_on is not is_on:
            yield "OnMarketTimestamp" if is_on else "OffMarketTimestamp", change.at
    if not {"ListPrice", "Status"}.isdisjoint(change.previous):
        yield "MajorChangeType", change_type(change)
        yield "MajorChangeTimestamp", change.at
