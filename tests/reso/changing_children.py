"""Changes of media and open houses; none of them moves its parent's stamp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sample.dice import between, pick, uuid
from tests.reso.children import open_house, photo
from tests.reso.kinds import Kind, Target
from tests.reso.schema import ENTITY_TYPES
from tests.reso.world import complete

if TYPE_CHECKING:
    from tests.reso.changes import Hand
    from tests.reso.schema import Record

_PARENTS = ("Property",) * 8 + ("Member", "Office")


def _add_photo(hand: Hand) -> Target:
    resource = pick(hand.chance, _PARENTS)
    if (parent := hand.any(resource)) is None:
        return None
    key, order = uuid(hand.chance), between(hand.chance, 1, 30)
    made = photo(hand.chance, key, resource, parent[ENTITY_TYPES[resource].key], order)
    hand.store.put("Media", complete("Media", made))
    return "Media", key


def _add_open_house(hand: Hand) -> Target:
    if (parent := hand.any("Property")) is None:
        return None
    key = uuid(hand.chance)
    hand.store.put("OpenHouse", complete("OpenHouse", open_house(hand.chance, key, parent, hand.today)))
    return "OpenHouse", key


def _patch(hand: Hand, resource: str, **changes: object) -> Target:
    if (record := hand.any(resource)) is None:
        return None
    key = record[ENTITY_TYPES[resource].key]
    hand.store.patch(resource, key, **changes)
    return resource, key


def _change_photo(hand: Hand) -> Target:
    changes: tuple[Record, ...] = (
        {"Order": between(hand.chance, 1, 30)},
        {"MediaURL": f"https://media.example.com/{uuid(hand.chance)}.jpg"},
        {"ShortDescription": pick(hand.chance, ("Garden", "Bath", None))},
    )
    return _patch(hand, "Media", **pick(hand.chance, changes))


def _change_open_house(hand: Hand) -> Target:
    changes: tuple[Record, ...] = (
        {"OpenHouseStatus": pick(hand.chance, ("Active", "Canceled"))},
        {"OpenHouseRemarks": uuid(hand.chance)},
    )
    return _patch(hand, "OpenHouse", **pick(hand.chance, changes))


def _move_photo(hand: Hand) -> Target:
    if (parent := hand.any("Property")) is None:
        return None
    return _patch(hand, "Media", ResourceName="Property", ResourceRecordKey=parent["ListingKey"])


def _move_open_house(hand: Hand) -> Target:
    if (parent := hand.any("Property")) is None:
        return None
    return _patch(hand, "OpenHouse", ListingKey=parent["ListingKey"], ListingId=parent["ListingId"])


def delete(hand: Hand, resource: str) -> Target:
    """Delete a record of a resource."""
    if (record := hand.any(resource)) is None:
        return None
    key = record[ENTITY_TYPES[resource].key]
    hand.store.delete(resource, key)
    return resource, key


CHILD_CHANGES = {
    "photo added": Kind(6, _add_photo),
    "photo changed": Kind(6, _change_photo),
    "photo moved to another parent": Kind(3, _move_photo),
    "photo deleted": Kind(5, lambda hand: delete(hand, "Media")),
    "open house added": Kind(4, _add_open_house),
    "open house changed": Kind(3, _change_open_house),
    "open house moved to another parent": Kind(2, _move_open_house),
    "open house deleted": Kind(3, lambda hand: delete(hand, "OpenHouse")),
}
