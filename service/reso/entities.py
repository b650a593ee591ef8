"""The entity sets: what each is made of, and how its properties are read from our records and found by.

All of it follows from the table of Data Dictionary names (`mappings.dictionary`) and the declarations of our resources.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mappings import RESOURCES
from mappings.dictionary import MODIFIED, read_dictionary
from service.reso.columns import Column, coded, copied, featured, keyed, modified, stated
from service.reso.edm import OF_KIND, Edm
from service.reso.exact import Found, Nowhere

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mappings.dictionary import Entity
    from mappings.fields import Field
    from mappings.resource import Resource

DICTIONARY = read_dictionary()
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}


@dataclass(frozen=True)
class Property:
    """A property of an entity: its name, its type, and its column in each of our resources that has it."""

    name: str
    edm: Edm
    columns: dict[Resource, Column] = field(hash=False)
    is_key: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether it can be filtered by."""
        return all(column.found is not None for column in self.columns.values())

    def found(self, resource: Resource) -> Found | None:
        """Return how it is found in a resource, None where it is not exactly."""
        if resource in self.columns:
            return self.columns[resource].found
        like = next(iter(self.columns.values())).found
        return Nowhere(like) if like is not None and self.is_exact else None


@dataclass(frozen=True)
class EntitySet:
    """An entity set, which is called as its type: the records of one or several of our resources."""

    name: str
    key: str
    resources: tuple[Resource, ...]
    properties: dict[str, Property] = field(hash=False)

    @property
    def filtered(self) -> tuple[str, ...]:
        """The properties that can be filtered by."""
        return tuple(name for name, each in self.properties.items() if each.is_exact)

    @property
    def ordered(self) -> tuple[str, ...]:
        """The properties that answers can be ordered by."""
        return (self.key, MODIFIED)


def _entity_set(name: str, entity: Entity) -> EntitySet:
    resources = tuple(_BY_ALIAS[alias] for alias in entity.aliases)
    properties: dict[str, Property] = {}
    for resource in resources:
        for title, edm, column in _columns(entity, resource):
            made = properties.setdefault(title, Property(title, edm, {}, is_key=title == entity.key))
            if made.edm is not edm:
                raise TypeError(f"{name}.{title} is {made.edm} and {edm}")
            made.columns.setdefault(resource, column)
    return EntitySet(name, entity.key, resources, properties)


def _columns(entity: Entity, resource: Resource) -> Iterator[tuple[str, Edm, Column]]:
    """Yield what a resource has of an entity's properties, the key first; of several for one name the first counts."""
    yield entity.key, Edm.STRING, keyed(resource)
    yield MODIFIED, Edm.DATE_TIME, modified()
    for name, column in (*stated(entity, resource), *coded(entity, resource)):
        yield name, Edm.STRING, column
    for name, member in _copies(entity, resource).items():
        yield name, OF_KIND[member.kind], copied(resource, member)
    for feature, name in entity.features.items():
        yield name, Edm.STRINGS, featured(feature)


def _copies(entity: Entity, resource: Resource) -> dict[str, Field]:
    """Return the members of our records by the names of what they are a copy of, or the key of."""
    stored = {member.name: member for member in resource.stored}
    found: dict[str, Field] = {}
    for ours in entity.fields:
        first = entity.values(ours)[0]
        (name, *_) = first.names
        is_told = first.is_copy or first.key is not None or first.uuid is not None
        if is_told and ours in stored and name not in {entity.key, MODIFIED}:
            found.setdefault(name, stored[ours])
    return found


ENTITY_SETS: dict[str, EntitySet] = {
    name: _entity_set(name, entity) for name, entity in DICTIONARY.entities.items() if entity.aliases
}
# The entity set that a resource's records are told in; companies are in none.
OF_RESOURCE: dict[Resource, EntitySet] = {each: made for made in ENTITY_SETS.values() for each in made.resources}
