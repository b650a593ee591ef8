"""What a dictionary cannot mean, each said with the entry at fault."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mappings import RESOURCES
from mappings.legends import PROPERTY_TYPES, STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mappings.dictionary import Dictionary, Entity, Value

# Anything else in a `$select` could ask for more than one field.
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}
# Fields that follow from a table or from another field.
_FOLLOW = {"Status": "status", "PropertyType": "type", "OnMarket": "status"}


def check(dictionary: Dictionary) -> None:
    """Raise ValueError for the first entry that cannot be meant."""
    private = {name.casefold() for name in dictionary.private}
    for name, entity in dictionary.entities.items():
        _check_names(name, entity, private)
        for place, value in _values(name, entity):
            if value.within is not None and value.within not in dictionary.entities:
                raise ValueError(f"{place}: {value.within} is none of {', '.join(dictionary.entities)}")
        _check_fields(name, entity)
        _check_tables(name, entity)


def _check_names(name: str, entity: Entity, private: set[str]) -> None:
    if asked := {word.casefold() for word in _NAME.findall(entity.filter)} & private:
        raise ValueError(f"{name}.filter: {', '.join(sorted(asked))} is private and is never asked for")
    for place, field in _read(name, entity):
        if _NAME.fullmatch(field) is None:
            raise ValueError(f"{place}: {field!r} is no name of a field")
        if field.casefold() in private:
            raise ValueError(f"{place}: {field} is private and is never asked for")


def _read(name: str, entity: Entity) -> Iterator[tuple[str, str]]:
    """Yield every field that is asked for, and the entry that asks for it."""
    yield f"{name}.key", entity.key
    yield from ((f"{name}.also", field) for field in entity.also)
    yield from ((f"{name}.features.{shown}", field) for shown, field in entity.features.items())
    for place, value in _values(name, entity):
        yield from ((place, field) for field in value.names)
        if value.of is not None and value.field is not None:
            yield place, value.field
    # Behind the values: what they look up is in `refers_to` too.
    for table in ("refers_to", "part_of"):
        yield from ((f"{name}.{table}", field) for entry in getattr(entity, table).items() for field in entry)


def _values(name: str, entity: Entity) -> Iterator[tuple[str, Value]]:
    for field in entity.fields:
        yield from ((f"{name}.fields.{field}", value) for value in entity.values(field))
    yield from ((f"{name}.source_agent_id", value) for value in entity.source_agent_ids)
    for member in ("inactive", "not_public"):
        if (value := getattr(entity, member)) is not None:
            yield f"{name}.{member}", value


def _check_fields(name: str, entity: Entity) -> None:
    """Check that fields are ours, can be copied, and that identifiers are made of the key."""
    resources = [_BY_ALIAS[alias] for alias in entity.aliases]
    ours = {field.name: field for resource in resources for field in resource.stored}
    for field in entity.fields:
        if field not in ours:
            raise ValueError(f"{name}.fields.{field}: is no field of {' or '.join(entity.aliases) or 'ours'}")
        if ours[field].members:
            raise ValueError(f"{name}.fields.{field}: is made of several records, which no field has")
        if "Status" in ours and field in _FOLLOW:
            raise ValueError(f"{name}.fields.{field}: follows from [{name}.{_FOLLOW[field]}]")
    for resource in resources:
        _check_identifier(f"{name}.fields.{resource.identifier}", entity, resource.identifier)


def _check_identifier(place: str, entity: Entity, identifier: str) -> None:
    """An identifier must follow from the key alone: what refers to a record, and what removes it, knows no more."""
    values = entity.values(identifier)
    if len(values) != 1 or entity.key not in {values[0].key, values[0].uuid}:
        raise ValueError(f'{place}: give {{ key = "{entity.key}" }} or {{ uuid = "{entity.key}" }}')


def _check_tables(name: str, entity: Entity) -> None:
    for spelling, status in entity.status.items():
        if status and status not in STATUSES:
            raise ValueError(f"{name}.status.{spelling}: {status!r} is none of {', '.join(STATUSES)}")
    for spelling, number in entity.type.items():
        if number not in PROPERTY_TYPES:
            raise ValueError(f"{name}.type.{spelling}: {number} is not in the legend of property_types")
