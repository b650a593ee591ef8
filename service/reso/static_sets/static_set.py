"""An entity set whose rows follow from declarations: few, and the same for all keys that may see the same fields."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from service.reso.entity_sets.entity_set import EntitySet


@dataclass(frozen=True)
class StaticRow:
    """A row: its values by property. A key sees it if it may see one of `groups`; "" means without a group."""

    values: dict[str, str]
    groups: frozenset[str]


@dataclass(frozen=True)
class StaticSet(EntitySet):
    """An entity set of rows in the order of their keys; `build` returns them."""

    build: Callable[[], tuple[StaticRow, ...]] = field(default=tuple, hash=False)
    description: str = ""

    def __hash__(self) -> int:
        """Hash by name, which is unique."""
        return hash(self.name)

    @property
    def sortable(self) -> tuple[str, ...]:
        """The properties that `$orderby` accepts."""
        return (self.key,)

    @property
    def origin(self) -> str:
        """Where the rows are from, as a sentence."""
        return self.description

    def visible(self, withheld: Collection[str]) -> list[dict[str, str]]:
        """Return the rows for a key that may not see some field groups."""
        return [row.values for row in self.build() if not row.groups <= {*withheld}]
