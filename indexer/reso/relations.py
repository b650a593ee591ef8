"""Which records a record is part of or refers to, by the keys that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mappings.dictionary import Dictionary


class Link(NamedTuple):
    """From one record to another: as a part of it, or because it shows something of it."""

    is_part: bool
    entity: str
    key: str


def links(dictionary: Dictionary, entity: str, record: Mapping[str, Any]) -> Iterator[Link]:
    """Yield the links of a record; what a key names may be unknown or gone."""
    declared = dictionary.entities[entity]
    for field, target in declared.part_of.items():
        # The target is an entity, or a field that names one.
        named = target if target in dictionary.entities else record.get(target)
        if isinstance(named, str) and (key := _key(record.get(field))) is not None:
            yield Link(is_part=True, entity=named, key=key)
    for field, target in declared.refers_to.items():
        if (key := _key(record.get(field))) is not None:
            yield Link(is_part=False, entity=target, key=key)


def _key(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None
