"""Changes of media and open houses; none of them moves its parent's stamp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sample.ingredients import between, pick, uuid
from tests.reso.server.schema import ENTITY_TYPES
from tests.reso.world.change_kind import ChangeKindSpec, Target
from tests.reso.world.child_records import make_open_house, make_photo
from tests.reso.world.generated_world import complete

if TYPE_CHECKING:
    from tests.reso.server.schema import Record
    from tests.reso.world.random_changes import ChangeContext

_PARENTS = ("Property",) * 8 + ("Member", "Office")


def _add_photo(hand: ChangeContext) -> Target:
    resource = pick(hand.chance, _PARENTS)
    if (parent := hand.any(resource)) is None:
        return None
    key, order = uuid(hand.chance), between(hand.chance, 1, 30)
    made = make_photo(hand.chance, key, resource, parent[ENTITY_TYPES[resource].key], order)
    hand.store.put("Media", complete("Media", made))
    return "Media", key


def _add_open_house(hand: ChangeContext) -> Target:
    if (parent := hand.any("Property")) is None:
        return None
    key = uuid(hand.chance)
    hand.store.put("OpenHouse", complete("OpenHouse", make_open_house(hand.chance, key, parent, hand.today)))
    return "OpenHouse", key


def _patch(hand: ChangeContext, resource: str, **changes: object) -> Target:
    if (record := hand.any(resource)) is None:
        return None
    key = record[ENTITY_TYPES[resource].key]
    hand.store.patch(resource, key, **changes)
    return resource, key


def _change_photo(hand: ChangeContext) -> Target:
    changes: tuple[Record, ...] = (
        {"Order": between(hand.chance, 1, 30)},
        {"MediaURL": f"https://media.example.com/{uuid(hand.chance)}.jpg"},
        {"ShortDescription": pick(hand.chance, ("Garden", "Bath", None))},
    )
    return _patch(hand, "Media", **pick(hand.chance, changes))


def _change_open_house(hand: ChangeContext) -> Target:
    changes: tuple[Record, ...] = (
        {"OpenHouseStatus": pick(hand.chance, ("Active", "Canceled"))},
        {"OpenHouseRemarks": uuid(hand.chance)},
    )
    return _patch(hand, "OpenHouse", **pick(hand.chance, changes))


def _move_photo(hand: ChangeContext) -> Target:
    if (parent := hand.any("Property")) is None:
        return None
    return _patch(hand, "Media", ResourceName="Property", ResourceRecordKey=parent["ListingKey"])


def _move_open_house(hand: ChangeContext) -> Target:
    if (parent := hand.any("Property")) is None:
        return None
    return _patch(hand, "OpenHouse", ListingKey=parent["ListingKey"], ListingId=parent["ListingId"])


def delete(hand: ChangeContext, resource: str) -> Target:
    """Delete a record of a resource."""
    if (record := hand.any(resource)) is None:
        return None
    key = record[ENTITY_TYPES[resource].key]
    hand.store.delete(resource, key)
    return resource, key


CHILD_CHANGES = {
    "photo added": ChangeKindSpec(6, _add_photo),
    "photo changed": ChangeKindSpec(6, _change_photo),
    "photo moved to another parent": ChangeKindSpec(3, _move_photo),
    "photo deleted": ChangeKindSpec(5, lambda hand: delete(hand, "Media")),
    "open house added": ChangeKindSpec(4, _add_open_house),
    "open house changed": ChangeKindSpec(3, _change_open_house),
    "open house moved to another parent": ChangeKindSpec(2, _move_open_house),
    "open house deleted": ChangeKindSpec(3, lambda hand: delete(hand, "OpenHouse")),
}
