"""Links between records: what a record is part of and what it refers to, from the keys that it holds."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mappings.data_dictionary.model import DataDictionary

# Of a numeric key; Python refuses to print much longer ones.
_MAX_KEY_BITS = 256


class RecordLink(NamedTuple):
    """The target of a link. `is_part`: the record belongs to the target; else it shows values of it."""

    is_part: bool
    entity: str
    key: str


def find_links(dictionary: DataDictionary, entity: str, record: Mapping[str, Any]) -> Iterator[RecordLink]:
    """Yield the links of a record; a target may be missing in the mirror."""
    declared = dictionary.entities[entity]
    for field, target in declared.part_of.items():
        # The target is an entity, or a field that holds the name of one.
        name = target if target in dictionary.entities else record.get(target)
        if isinstance(name, str) and (key := key_text(record.get(field))):
            yield RecordLink(is_part=True, entity=name, key=key)
    for field, target in declared.refers_to.items():
        if key := key_text(record.get(field)):
            yield RecordLink(is_part=False, entity=target, key=key)


def key_text(value: object) -> str:
    """Return a key, a text or a number, as text; empty for anything else."""
    if isinstance(value, int):
        return str(value) if not isinstance(value, bool) and value.bit_length() <= _MAX_KEY_BITS else ""
    return value if isinstance(value, str) else ""
