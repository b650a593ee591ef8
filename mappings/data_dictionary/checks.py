"""Validation of a Data Dictionary mapping; errors name the invalid entry."""

import re
from collections.abc import Iterator

from mappings import RESOURCES
from mappings.data_dictionary.model import DataDictionary, DictionaryEntity, ValueSource
from mappings.legends import PROPERTY_TYPES, STATUSES

# Anything else in `$select` could request more than one field.
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}
# Fields that follow from a table or from another field.
_DERIVED_FIELDS = {"Status": "status", "PropertyType": "type", "OnMarket": "status"}


def check_dictionary(dictionary: DataDictionary) -> None:
    """Raise ValueError for the first invalid entry."""
    private = {name.casefold() for name in dictionary.private}
    for name, entity in dictionary.entities.items():
        _check_names(name, entity, private)
        for path, value in _declared_sources(name, entity):
            if value.within is not None and value.within not in dictionary.entities:
                raise ValueError(f"{path}: {value.within} is not one of {', '.join(dictionary.entities)}")
        _check_fields(name, entity)
        _check_tables(name, entity)


def _check_names(name: str, entity: DictionaryEntity, private: set[str]) -> None:
    if forbidden := {word.casefold() for word in _NAME.findall(entity.filter)} & private:
        raise ValueError(f"{name}.filter: {', '.join(sorted(forbidden))} is private and is never requested")
    for path, field in _source_fields(name, entity):
        if _NAME.fullmatch(field) is None:
            raise ValueError(f"{path}: {field!r} is not a valid field name")
        if field.casefold() in private:
            raise ValueError(f"{path}: {field} is private and is never requested")


def _source_fields(name: str, entity: DictionaryEntity) -> Iterator[tuple[str, str]]:
    """Yield every requested field, and the entry that requests it."""
    yield f"{name}.key", entity.key
    yield from ((f"{name}.also", field) for field in entity.also)
    yield from ((f"{name}.features.{shown}", field) for shown, field in entity.features.items())
    for path, value in _declared_sources(name, entity):
        yield from ((path, field) for field in value.own_fields)
        if value.of is not None and value.field is not None:
            yield path, value.field
    # After the values, because the fields that they look up are in `refers_to` too.
    for table in ("refers_to", "part_of"):
        yield from ((f"{name}.{table}", field) for entry in getattr(entity, table).items() for field in entry)


def _declared_sources(name: str, entity: DictionaryEntity) -> Iterator[tuple[str, ValueSource]]:
    for field in entity.fields:
        yield from ((f"{name}.fields.{field}", value) for value in entity.sources_for(field))
    yield from ((f"{name}.source_agent_id", value) for value in entity.source_agent_id_sources)
    for member in ("inactive", "not_public"):
        if (value := getattr(entity, member)) is not None:
            yield f"{name}.{member}", value


def _check_fields(name: str, entity: DictionaryEntity) -> None:
    """Check that fields exist, can be copied, and that identifiers derive from the key."""
    resources = [_BY_ALIAS[alias] for alias in entity.aliases]
    ours = {field.name: field for resource in resources for field in resource.stored}
    for field in entity.fields:
        if field not in ours:
            raise ValueError(
                f"{name}.fields.{field}: is not a field of {' or '.join(entity.aliases) or 'any resource'}"
            )
        if ours[field].members:
            raise ValueError(f"{name}.fields.{field}: consists of objects, which no source field has")
        if "Status" in ours and field in _DERIVED_FIELDS:
            raise ValueError(f"{name}.fields.{field}: follows from [{name}.{_DERIVED_FIELDS[field]}]")
    for resource in resources:
        _check_identifier(f"{name}.fields.{resource.identifier}", entity, resource.identifier)


def _check_identifier(path: str, entity: DictionaryEntity, identifier: str) -> None:
    """Check that an identifier derives from the key alone: references and deletions contain nothing else."""
    values = entity.sources_for(identifier)
    if len(values) != 1 or entity.key not in {values[0].key, values[0].uuid}:
        raise ValueError(f'{path}: give {{ key = "{entity.key}" }} or {{ uuid = "{entity.key}" }}')


def _check_tables(name: str, entity: DictionaryEntity) -> None:
    for spelling, status in entity.status.items():
        if status and status not in STATUSES:
            raise ValueError(f"{name}.status.{spelling}: {status!r} is not one of {', '.join(STATUSES)}")
    for spelling, number in entity.type.items():
        if number not in PROPERTY_TYPES:
            raise ValueError(f"{name}.type.{spelling}: {number} is not in the legend of property_types")
