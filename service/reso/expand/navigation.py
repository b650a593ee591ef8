"""The navigation properties of entity sets: the entities that a record has in itself, and those that it names."""

from dataclasses import dataclass

from service.reso.child_sets.child_set import ChildSet
from service.reso.child_sets.declarations import CHILD_SETS
from service.reso.entity_sets.declarations import RECORD_SETS
from service.reso.entity_sets.entity_set import EntitySet


@dataclass(frozen=True)
class Navigation:
    """A navigation property: the entity set that it leads to, and the property with the key of the only entity.

    Without such a property it is a collection: the children of the record.
    """

    name: str
    target: EntitySet
    key_property: str = ""

    @property
    def children(self) -> ChildSet | None:
        """The child set that it leads to, None if it leads to one entity."""
        return self.target if isinstance(self.target, ChildSet) else None


def _navigations() -> dict[str, dict[str, Navigation]]:
    members = ("ListAgent", "CoListAgent", "BuyerAgent")
    offices = ("ListOffice", "BuyerOffice")
    declared = [
        *(Navigation(name, CHILD_SETS[name]) for name in ("Media", "OpenHouse")),
        *(Navigation(name, RECORD_SETS["Member"], f"{name}Key") for name in members),
        *(Navigation(name, RECORD_SETS["Office"], f"{name}Key") for name in offices),
    ]
    return {"Property": {each.name: each for each in declared}}


_BY_SET = _navigations()


def navigations(entity_set: str) -> dict[str, Navigation]:
    """Return the navigation properties of an entity set by name."""
    return _BY_SET.get(entity_set, {})
