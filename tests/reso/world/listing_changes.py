"""Changes of listings."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from sample.ingredients import between, pick, uuid
from tests.reso.world.change_kind import ChangeKindSpec, Target
from tests.reso.world.child_records import make_open_house, make_photo
from tests.reso.world.generated_world import complete
from tests.reso.world.listing_records import make_listing
from tests.reso.world.oddities import PROPERTY, put_oddity
from tests.reso.world.people_records import canary_value, mls_number, sample_some
from tests.reso.world.status_changes import status_change
from tests.reso.world.vocabulary import LISTS, REMARKS, STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.reso.world.random_changes import ChangeContext

_VALUES: dict[str, Callable[[Random], Any]] = {
    "ListPrice": lambda chance: between(chance, 60, 3_000) * 1_000,
    "PublicRemarks": lambda chance: " ".join(sample_some(chance, REMARKS, 5)) or None,
    "BedroomsTotal": lambda chance: between(chance, 0, 9),
    "LivingArea": lambda chance: between(chance, 400, 6_000),
    "YearBuilt": lambda chance: pick(chance, (1901, 1988, 2026, None)),
    "PoolPrivateYN": lambda chance: pick(chance, (True, False, None)),
    "InternetEntireListingDisplayYN": lambda chance: pick(chance, (True, False)),
    "DaysOnMarket": lambda chance: between(chance, 0, 400),
    "ListingId": mls_number,
    "TaxAnnualAmount": lambda chance: round(chance.uniform(1, 30_000), 2),
    "VirtualTourURLUnbranded": lambda chance: f"https://tours.example.com/{mls_number(chance)}",
    "PrivateRemarks": lambda chance: canary_value("PrivateRemarks", chance),
    **{
        name: functools.partial(lambda values, chance: sample_some(chance, values), values)
        for name, values in LISTS.items()
    },
}


def _edit(hand: ChangeContext) -> Target:
    return _change(hand, (field := pick(hand.chance, list(_VALUES))), _VALUES[field](hand.chance))


def _change(hand: ChangeContext, field: str, value: object) -> Target:
    if (record := hand.any("Property")) is None:
        return None
    hand.store.patch("Property", record["ListingKey"], **{field: value})
    return "Property", record["ListingKey"]


def _move(hand: ChangeContext) -> Target:
    """Any status may follow any other: closed and back, deleted and back."""
    return _move_to(hand, pick(hand.chance, list(STATUSES)))


def _move_to(hand: ChangeContext, status: str) -> Target:
    record, cast = hand.any("Property"), hand.cast
    if record is None or not cast.members:
        return None
    hand.store.patch("Property", record["ListingKey"], **status_change(hand.chance, record, status, cast))
    return "Property", record["ListingKey"]


def _list(hand: ChangeContext) -> Target:
    """A new listing, then its photos and open houses: who reads in between sees a listing without them."""
    cast = hand.cast
    if not cast.members:
        return None
    record = complete("Property", make_listing(hand.chance, key := uuid(hand.chance), cast))
    hand.store.put("Property", record)
    for order in range(1, between(hand.chance, 1, 4)):
        hand.store.put("Media", complete("Media", make_photo(hand.chance, uuid(hand.chance), "Property", key, order)))
    if hand.chance.random() < 0.5:
        opened = make_open_house(hand.chance, uuid(hand.chance), record, hand.today)
        hand.store.put("OpenHouse", complete("OpenHouse", opened))
    return "Property", key


def _delete(hand: ChangeContext) -> Target:
    if (record := hand.any("Property")) is None:
        return None
    hand.store.delete("Property", record["ListingKey"])
    return "Property", record["ListingKey"]


def _agent(hand: ChangeContext) -> Target:
    record, agent = hand.any("Property"), hand.any("Member")
    if record is None or agent is None:
        return None
    named = {"ListAgentKey": agent["MemberKey"], "ListAgentFullName": agent["MemberFullName"]}
    office = {"ListOfficeKey": agent["OfficeKey"], "ListOfficeName": agent["OfficeName"]}
    hand.store.patch("Property", record["ListingKey"], **named, **office)
    return "Property", record["ListingKey"]


def _touch(hand: ChangeContext) -> Target:
    """A new stamp and nothing else."""
    if (record := hand.any("Property")) is None:
        return None
    hand.store.patch("Property", record["ListingKey"])
    return "Property", record["ListingKey"]


def _spoil(hand: ChangeContext) -> Target:
    if (record := hand.any("Property")) is None:
        return None
    spoiled = dict(record)
    put_oddity(hand.chance, "Property", pick(hand.chance, list(PROPERTY)), spoiled)
    hand.store.put("Property", spoiled)
    return "Property", record["ListingKey"]


HOME_CHANGES = {
    "listing edited": ChangeKindSpec(24, _edit),
    "listing moves in status": ChangeKindSpec(12, _move),
    "listing closed": ChangeKindSpec(4, functools.partial(_move_to, status="Closed")),
    "listing active again": ChangeKindSpec(4, functools.partial(_move_to, status="Active")),
    "listing in status Delete": ChangeKindSpec(2, functools.partial(_move_to, status="Delete")),
    "listing new": ChangeKindSpec(6, _list),
    "listing deleted": ChangeKindSpec(6, _delete),
    "listing given to another agent": ChangeKindSpec(3, _agent),
    "listing touched": ChangeKindSpec(3, _touch),
    "listing made odd": ChangeKindSpec(1, _spoil),
}
