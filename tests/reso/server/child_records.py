"""Which records belong to which: the children that a dialect sends with their parents."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.reso.server.dialect import Dialect
    from tests.reso.server.schema import Record

Parent = tuple[str, Any]  # a resource and a key


class ChildRecords:
    """The keys of the children by parent, in the order of their arrival."""

    def __init__(self, dialect: Dialect) -> None:
        """Begin empty."""
        self._dialect = dialect
        self._keys: dict[tuple[str, str, Any], dict[Any, None]] = defaultdict(dict)

    def parent(self, child: str, record: Record) -> Parent | None:
        """Return the record that a child is sent with, None if it is not sent with one."""
        found = (
            (record.get("ResourceName"), record.get("ResourceRecordKey"))
            if child == "Media"
            else ("Property", record.get("ListingKey"))
        )
        if not isinstance(found[0], str) or child not in self._dialect.children_of(found[0]):
            return None
        return found[0], found[1]

    def add(self, child: str, key: Any, record: Record) -> None:
        """Record a child."""
        if (parent := self.parent(child, record)) is not None:
            self._keys[child, *parent][key] = None

    def remove(self, child: str, key: Any, record: Record) -> None:
        """Forget a child."""
        if (parent := self.parent(child, record)) is not None:
            self._keys[child, *parent].pop(key, None)

    def keys(self, child: str, resource: str, key: Any) -> list[Any]:
        """Return the keys of the children of a record."""
        return list(self._keys.get((child, resource, key), ()))
