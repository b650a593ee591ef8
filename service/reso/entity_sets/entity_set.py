"""An entity set: its properties, and the column of each in the resources whose records it reads."""

from dataclasses import dataclass, field

from mappings.resource import Resource
from service.reso.entity_sets.edm_types import EdmType
from service.reso.entity_sets.property_columns import PropertyColumn
from service.reso.entity_sets.sort_fields import SortField
from service.reso.filter.matchers import Matcher, MissingPropertyMatcher


@dataclass(frozen=True)
class EntityProperty:
    """A property of an entity: its name, its type, and its column in each resource that has it."""

    name: str
    edm: EdmType
    columns: dict[Resource, PropertyColumn] = field(hash=False)
    is_key: bool = False

    @property
    def is_filterable(self) -> bool:
        """Whether `$filter` accepts it."""
        return all(column.search.matcher is not None for column in self.columns.values())

    @property
    def lookup(self) -> tuple[str, ...]:
        """The values of a lookup with a fixed set of them, empty for any other property."""
        return tuple(dict.fromkeys(value for column in self.columns.values() for value in column.lookup))

    @property
    def is_sortable(self) -> bool:
        """Whether `$orderby` accepts it."""
        return all(column.search.sort is not None for column in self.columns.values())

    def matcher(self, resource: Resource) -> Matcher | None:
        """Return its matcher for a resource, None if it cannot be filtered."""
        if resource in self.columns:
            return self.columns[resource].search.matcher
        like = next(iter(self.columns.values())).search.matcher
        return MissingPropertyMatcher(like) if like is not None and self.is_filterable else None

    def sort_field(self, resource: Resource) -> SortField | None:
        """Return the field that sorts the records of a resource, None if they cannot be sorted by it."""
        if resource in self.columns:
            return self.columns[resource].search.sort
        like = next(iter(self.columns.values())).search.sort
        return like._replace(is_absent=True) if like is not None else None


@dataclass(frozen=True)
class EntitySet:
    """An entity set: the records of one or more resources. Its entity type has the same name."""

    name: str
    key: str
    resources: tuple[Resource, ...]
    properties: dict[str, EntityProperty] = field(hash=False)

    @property
    def origin(self) -> str:
        """Where the rows are from, as a sentence."""
        return f"Records of {' and '.join(f'`{resource.alias}`' for resource in self.resources)}."

    @property
    def filterable(self) -> tuple[str, ...]:
        """The properties that `$filter` accepts."""
        return tuple(name for name, declared in self.properties.items() if declared.is_filterable)

    @property
    def sortable(self) -> tuple[str, ...]:
        """The properties that `$orderby` accepts."""
        return tuple(name for name, declared in self.properties.items() if declared.is_sortable)
