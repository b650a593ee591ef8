"""Extractors: functions compiled from the dictionary that take a raw value from a record.

An extractor returns None if there is no value and raises UnmappableValue if the value cannot be used.
"""

from collections.abc import Callable
from typing import Any

from indexer.errors import InvalidRecordError
from indexer.reso.mapping.converters import to_names, to_text
from indexer.reso.mapping.identifiers import IdentifierFactory, key_text
from indexer.reso.mapping.lookup_tables import normalize_names
from indexer.reso.mapping.mapping_context import MappingContext
from indexer.reso.mapping.source_values import UnmappableValue, describe_value
from mappings.data_dictionary.model import ValueSource
from mappings.values.normalization import normalize_lookup

Extractor = Callable[[MappingContext, dict[str, Any]], object]


def build_extractor(value: ValueSource, identifiers: IdentifierFactory) -> Extractor:
    """Return the extractor of a value."""
    if value.join is not None:
        return _join(value.join)
    if value.key is not None:
        return _identifier(value.key, identifiers.plain)
    if value.uuid is not None:
        return _identifier(value.uuid, identifiers.uuid)
    if value.of is not None and value.within is not None:
        return _related_field(value.of, value.within, str(value.field))
    field = str(value.field)
    return _copy(field) if value.among is None else _among(field, normalize_names(value.among))


def source_field(value: ValueSource) -> str:
    """Return the Data Dictionary field of a value, with the entity's name for a field of a related record."""
    return f"{value.within}.{value.field}" if value.of is not None else value.own_fields[0]


def _copy(field: str) -> Extractor:
    return lambda _, record: record.get(field)


def _join(fields: tuple[str, ...]) -> Extractor:
    def join(context: MappingContext, record: dict[str, Any]) -> str:
        texts = (context.convert(field, to_text, record.get(field)) for field in fields)
        return " ".join(text for text in texts if text is not None)

    return join


def _among(field: str, wanted: frozenset[str]) -> Extractor:
    def is_among(_: MappingContext, record: dict[str, Any]) -> bool | None:
        names = to_names(record.get(field))
        return None if names is None else any(normalize_lookup(name) in wanted for name in names)

    return is_among


def _identifier(field: str, identify: Callable[[str], str]) -> Extractor:
    def identifier(_: MappingContext, record: dict[str, Any]) -> str | None:
        key = _key(record.get(field))
        try:
            return None if key is None else identify(key)
        except InvalidRecordError as error:
            raise UnmappableValue(error.reason) from None

    return identifier


def _related_field(key_field: str, entity: str, field: str) -> Extractor:
    def related_field(context: MappingContext, record: dict[str, Any]) -> object:
        key = context.convert(key_field, _key, record.get(key_field))
        return None if key is None else context.related(entity, key).get(field)

    return related_field


def _key(value: object) -> str | None:
    """Return a key, None for an absent or masked one."""
    key = key_text(value)
    if key is None and value is not None and not isinstance(value, str):
        raise UnmappableValue(f"is {describe_value(value)}: not a key")
    return key
