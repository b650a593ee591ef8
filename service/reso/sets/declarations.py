"""All entity sets: their resources, how each property is read and filtered, and which entities a record leads to.

They follow from the Data Dictionary mapping (`mappings.data_dictionary`) and the declarations of our resources.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mappings import RESOURCES
from mappings.data_dictionary import MODIFICATION_TIMESTAMP, DictionaryEntity, load_dictionary
from mappings.fields import Field
from mappings.resource import Resource
from service.reso.sets.child_sets import CHILD_SETS, ChildSet
from service.reso.sets.edm_types import EDM_TYPE_BY_DICTIONARY_TYPE, EDM_TYPE_BY_KIND, EdmType
from service.reso.sets.entity_set import (
    EntityProperty,
    EntitySet,
    PropertyColumn,
    activity_columns,
    feature_column,
    field_column,
    history_columns,
    key_column,
    lookup_columns,
    modification_column,
    time_zone_columns,
)
from service.reso.sets.static_sets import static_sets

DATA_DICTIONARY = load_dictionary()
_RESOURCE_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}


def _entity_set(name: str, entity: DictionaryEntity) -> EntitySet:
    resources = tuple(_RESOURCE_BY_ALIAS[alias] for alias in entity.aliases)
    properties: dict[str, EntityProperty] = {}
    for resource in resources:
        for title, edm, column in _columns(entity, resource):
            declared = properties.setdefault(title, EntityProperty(title, edm, {}, is_key=title == entity.key))
            if declared.edm is not edm:
                raise TypeError(f"{name}.{title} is {declared.edm} and {edm}")
            declared.columns.setdefault(resource, column)
    return EntitySet(name, entity.key, resources, properties)


def _columns(entity: DictionaryEntity, resource: Resource) -> Iterator[tuple[str, EdmType, PropertyColumn]]:
    """Yield the properties that a resource has, the key first; the first column of a name counts."""
    yield entity.key, EdmType.STRING, key_column(resource)
    yield MODIFICATION_TIMESTAMP, EdmType.DATE_TIME, modification_column()
    strings = (activity_columns, lookup_columns, time_zone_columns)
    for name, column in (pair for columns in strings for pair in columns(entity, resource)):
        yield name, EdmType.STRING, column
    history = history_columns(entity, resource)
    for name, member in _copied_fields(entity, resource).items():
        declared = entity.types.get(name)
        edm = EDM_TYPE_BY_DICTIONARY_TYPE[declared] if declared else EDM_TYPE_BY_KIND[member.kind]
        column = field_column(resource, member, edm)
        yield name, edm, replace(column, otherwise=history[name][1].otherwise) if name in history else column
    yield from ((name, edm, column) for name, (edm, column) in history.items())
    for feature, name in entity.features.items():
        yield name, EdmType.STRINGS, feature_column(resource, feature)


def _copied_fields(entity: DictionaryEntity, resource: Resource) -> dict[str, Field]:
    """Return the members that are copies or keys of a property, by the name of the property."""
    stored = {member.name: member for member in resource.stored}
    members: dict[str, Field] = {}
    for ours in entity.fields:
        first = entity.sources_for(ours)[0]
        (name, *_) = first.own_fields
        is_plain = first.is_copy or first.key is not None or first.uuid is not None
        if is_plain and ours in stored and name not in {entity.key, MODIFICATION_TIMESTAMP}:
            members.setdefault(name, stored[ours])
    return members


RECORD_SETS: dict[str, EntitySet] = {
    name: _entity_set(name, entity) for name, entity in DATA_DICTIONARY.entities.items() if entity.aliases
}
_DATA_SETS: dict[str, EntitySet] = {**RECORD_SETS, **CHILD_SETS}
ENTITY_SETS: dict[str, EntitySet] = {**_DATA_SETS, **static_sets(_DATA_SETS)}
# The entity set of each resource; companies have none.
ENTITY_SET_BY_RESOURCE: dict[Resource, EntitySet] = {
    resource: entity_set for entity_set in RECORD_SETS.values() for resource in entity_set.resources
}


@dataclass(frozen=True)
class Navigation:
    """A navigation property: the entity set that it leads to, and the property with the key of the only entity.

    Without such a property it is a collection: the children of the record.
    """

    name: str
    target: EntitySet
    key_property: str = ""
    is_former: bool = False  # under a name that the Data Dictionary had before

    @property
    def children(self) -> ChildSet | None:
        """The child set that it leads to, None if it leads to one entity."""
        return self.target if isinstance(self.target, ChildSet) else None


def _navigations() -> dict[str, dict[str, Navigation]]:
    members = ("ListAgent", "CoListAgent", "BuyerAgent")
    offices = ("ListOffice", "BuyerOffice")
    declared = [
        Navigation("Media", CHILD_SETS["Media"]),
        Navigation("OpenHouses", CHILD_SETS["OpenHouse"]),
        Navigation("HistoryTransactional", CHILD_SETS["HistoryTransactional"]),
        *(Navigation(name, RECORD_SETS["Member"], f"{name}Key") for name in members),
        *(Navigation(name, RECORD_SETS["Office"], f"{name}Key") for name in offices),
    ]
    known = {one.name: one for one in declared}
    renamed = DATA_DICTIONARY.renamed["Property"].items()
    former = {old: replace(known[new], name=old, is_former=True) for old, new in renamed if new in known}
    return {"Property": known | former}


_BY_SET = _navigations()


def navigations(entity_set: str) -> dict[str, Navigation]:
    """Return the navigation properties that requests may name, also by the names of before."""
    return _BY_SET.get(entity_set, {})


def child_navigations(entity_set: str) -> dict[str, ChildSet]:
    """Return the child sets to which navigation properties lead."""
    named = {one.name: one.children for one in navigations(entity_set).values()}
    return {name: children for name, children in named.items() if children is not None}


def declared_navigations(entity_set: str) -> list[Navigation]:
    """Return those of the present Data Dictionary."""
    return [one for one in navigations(entity_set).values() if not one.is_former]
