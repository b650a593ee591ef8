"""The entity sets: their resources, and how each property is read and filtered.

They follow from the Data Dictionary mapping (`mappings.data_dictionary.model`) and the declarations of our resources.
"""

from collections.abc import Iterator

from mappings import RESOURCES
from mappings.data_dictionary.loader import load_dictionary
from mappings.data_dictionary.model import MODIFICATION_TIMESTAMP, DictionaryEntity
from mappings.fields import Field
from mappings.resource import Resource
from service.reso.child_sets.declarations import CHILD_SETS
from service.reso.entity_sets.edm_types import EDM_TYPE_BY_DICTIONARY_TYPE, EDM_TYPE_BY_KIND, EdmType
from service.reso.entity_sets.entity_set import EntityProperty, EntitySet
from service.reso.entity_sets.property_columns import (
    PropertyColumn,
    activity_columns,
    feature_column,
    field_column,
    key_column,
    lookup_columns,
    modification_column,
)
from service.reso.static_sets.declarations import static_sets

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
    for name, column in (*activity_columns(entity, resource), *lookup_columns(entity, resource)):
        yield name, EdmType.STRING, column
    for name, member in _copied_fields(entity, resource).items():
        declared = entity.types.get(name)
        edm = EDM_TYPE_BY_DICTIONARY_TYPE[declared] if declared else EDM_TYPE_BY_KIND[member.kind]
        yield name, edm, field_column(resource, member, edm)
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
