"""An entity set of children: elements of a list in the records of its resources, the parents.

The key of a child is that of its parent, an exclamation mark and a suffix that identifies it among its siblings. No
character that keys of parents may have is before the exclamation mark, and no suffix has one, so children in the order
of their keys come parent by parent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from mappings.resource import Resource
from service.http.responses import JsonBytes
from service.reso.entity_sets.entity_set import EntitySet
from service.reso.entity_sets.property_columns import EntityHeader, PropertyColumn

SEPARATOR = "!"
Values = dict[str, Any]


class ChildKey(NamedTuple):
    """A key of a child: the key of the parent, and the suffix. It sorts as children do."""

    parent: str
    suffix: str

    @classmethod
    def of(cls, text: str) -> ChildKey:
        """Return the parts of a key, without a suffix if it has no separator."""
        parent, separator, suffix = text.rpartition(SEPARATOR)
        return cls(parent, suffix) if separator else cls(text, "")

    @property
    def text(self) -> str:
        """The key as clients have it."""
        return f"{self.parent}{SEPARATOR}{self.suffix}"


class Child(NamedTuple):
    """A child: its key, its values, its position in the list, and values and header of its parent."""

    key: ChildKey
    values: Values
    at: int
    of_parent: Any
    header: EntityHeader


@dataclass(frozen=True)
class ChildColumn(PropertyColumn):
    """A property of a child, which `read` returns."""

    read: Callable[[Child], object] = field(default=lambda _: None)


@dataclass(frozen=True)
class ChildSet(EntitySet):
    """An entity set of children.

    `member` is the list, `counted_by` the search field with the number of its elements, `identify` returns the suffix
    of a child's key from its values; `parent_members` are what else is read from the parent. `parent_key` and
    `parent_type` name the properties with the key and the entity set of the parent.
    """

    member: str
    counted_by: str
    identify: Callable[[Values], str]
    parent_key: str
    parent_type: str = ""
    parent_members: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Hash by name, which is unique."""
        return hash(self.name)

    def group(self, resource: Resource) -> str:
        """Return the field group that a key needs to see the list in records of a resource."""
        return self.properties[self.key].columns[resource].group

    @property
    def origin(self) -> str:
        """Where the rows are from, as a sentence."""
        return f"Elements of `{self.member}`. {super().origin}"

    @cached_property
    def _decode(self) -> Callable[[JsonBytes], Any]:
        members = [(name, Any, None) for name in (self.member, *self.parent_members)]
        return msgspec.json.Decoder(msgspec.defstruct("Parent", members, gc=False)).decode

    def children(self, parent: str, record: JsonBytes, header: EntityHeader) -> list[Child]:
        """Return the children of a record in the order of its list."""
        decoded = self._decode(record)
        elements = getattr(decoded, self.member)
        found: list[Child] = []
        times: dict[str, int] = {}
        for at, values in enumerate(elements if isinstance(elements, list) else ()):
            if isinstance(values, dict):
                suffix = self.identify(values)
                times[suffix] = times.get(suffix, 0) + 1
                # Elements of the same identity are numbered in their order.
                suffix = suffix if times[suffix] == 1 else f"{suffix}-{times[suffix]}"
                found.append(Child(ChildKey(parent, suffix), values, at, decoded, header))
        return found
