"""The ways in which the dictionary comes to a value, compiled: from a record to what a reader then brings to a type.

A way returns None where there is nothing and raises LeftOut where the value that it looks at cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indexer.errors import ItemError
from indexer.reso.identifiers import key_text
from indexer.reso.left_out import LeftOut, shown
from indexer.reso.spelling import among
from indexer.reso.values import names, text
from mappings.spelling import bare

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.reso.identifiers import Identifiers
    from indexer.reso.reading import Reading
    from mappings.dictionary import Value

    Way = Callable[[Reading, dict[str, Any]], object]


def way(value: Value, identifiers: Identifiers) -> Way:
    """Return the function from a record, and what was read beside it, to the value."""
    if value.join is not None:
        return _join(value.join)
    if value.key is not None:
        return _identifier(value.key, identifiers.plain)
    if value.uuid is not None:
        return _identifier(value.uuid, identifiers.uuid)
    if value.of is not None and value.within is not None:
        return _other(value.of, value.within, str(value.field))
    field = str(value.field)
    return _copy(field) if value.among is None else _among(field, among(value.among))


def origin(value: Value) -> str:
    """Return the field of the Data Dictionary that a value comes from, the entity's name before it if it is another."""
    return f"{value.within}.{value.field}" if value.of is not None else value.names[0]


def _copy(field: str) -> Way:
    return lambda _, record: record.get(field)


def _join(fields: tuple[str, ...]) -> Way:
    def join(reading: Reading, record: dict[str, Any]) -> str:
        taken = (reading.take(field, text, record.get(field)) for field in fields)
        return " ".join(part for part in taken if part is not None)

    return join


def _among(field: str, wanted: frozenset[str]) -> Way:
    def is_among(_: Reading, record: dict[str, Any]) -> bool | None:
        found = names(record.get(field))
        return None if found is None else any(bare(name) in wanted for name in found)

    return is_among


def _identifier(field: str, identify: Callable[[str], str]) -> Way:
    def identifier(_: Reading, record: dict[str, Any]) -> str | None:
        key = _key(record.get(field))
        try:
            return None if key is None else identify(key)
        except ItemError as error:
            raise LeftOut(error.reason) from None

    return identifier


def _other(key_field: str, entity: str, field: str) -> Way:
    def other(reading: Reading, record: dict[str, Any]) -> object:
        key = reading.take(key_field, _key, record.get(key_field))
        return None if key is None else reading.other(entity, key).get(field)

    return other


def _key(value: object) -> str | None:
    """Return a key; None for an absent or masked one."""
    key = key_text(value)
    if key is None and value is not None and not isinstance(value, str):
        raise LeftOut(f"is {shown(value)}: no key")
    return key
