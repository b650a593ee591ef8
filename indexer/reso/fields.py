"""The plain fields of a resource, compiled from the dictionary: where each comes from and how it gets its type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.reso.left_out import LeftOut
from indexer.reso.values import reader, searched
from indexer.reso.ways import origin, way

if TYPE_CHECKING:
    from indexer.reso.identifiers import Identifiers
    from indexer.reso.reading import Reading
    from indexer.reso.values import Reader
    from indexer.reso.ways import Way
    from mappings import Resource
    from mappings.dictionary import Entity, Value


class OneOf:
    """A value that there are several ways to come to; the first that gives one counts."""

    def __init__(self, values: tuple[Value, ...], read: Reader, identifiers: Identifiers) -> None:
        """Compile the ways, in this order."""
        self._ways: list[tuple[str, Way]] = [(origin(value), way(value, identifiers)) for value in values]
        self._read = read

    def __call__(self, reading: Reading) -> object | None:
        """Return the value, None where no way gives one."""
        for field, look in self._ways:
            if (value := self._looked(reading, field, look)) is not None:
                return value
        return None

    def _looked(self, reading: Reading, field: str, look: Way) -> object | None:
        try:
            value = look(reading, reading.record)
        except LeftOut as left:
            reading.left_out.append((field, left.reason))
            return None  # what it keeps need not be of our field's type
        taken: object | None = reading.take(field, self._read, value)
        return taken


class Fields:
    """Everything of a resource that the dictionary names."""

    def __init__(self, resource: Resource, entity: Entity, identifiers: Identifiers) -> None:
        """Compile; a field that the resource does not have is left away, and so is its identifier."""
        plain = [field for field in resource.stored if not field.members and field.name != resource.identifier]
        named = [(field, entity.values(field.name)) for field in plain]
        copied = {field.name: values[0].names[0] for field, values in named if len(values) == 1 and values[0].is_copy}
        read = _readers(resource)
        self._copies = [
            (field.name, copied[field.name], read[field.name]) for field, _ in named if field.name in copied
        ]
        self._others = [
            (field.name, OneOf(values, read[field.name], identifiers))
            for field, values in named
            if values and field.name not in copied
        ]
        self._lists = [field.name for field in resource.stored if field.kind.is_list]

    def __call__(self, reading: Reading) -> dict[str, object]:
        """Return what there is of a record, by our names."""
        made: dict[str, object] = {name: [] for name in self._lists}
        get = reading.record.get
        for name, field, read in self._copies:
            value = get(field)
            if value is not None and (taken := reading.take(field, read, value)) is not None:
                made[name] = taken
        for name, look in self._others:
            if (value := look(reading)) is not None:
                made[name] = value
        return made


def _readers(resource: Resource) -> dict[str, Reader]:
    """Return what brings each plain field to its type."""
    keywords = {name for search in resource.filters if search.mapping["type"] == "keyword" for name in search.sources}
    readers = {field.name: reader(field.kind) for field in resource.stored if not field.members}
    return {name: searched(read) if name in keywords else read for name, read in readers.items()}
