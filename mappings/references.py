"""The references between resources, as their search fields declare them."""

from typing import NamedTuple

from mappings import RESOURCES, Resource
from mappings.search_fields import SearchField


class Reference(NamedTuple):
    """A search field whose values are identifiers of another resource."""

    resource: Resource
    field: SearchField
    target: Resource


def declared_references() -> list[Reference]:
    """Return the references between resources; that of a company to itself is none."""
    targets = {resource.alias: resource for resource in RESOURCES}
    return [
        Reference(resource, field, targets[field.refers_to])
        for resource in RESOURCES
        for field in resource.indexed_fields
        if field.refers_to and resource.alias != field.refers_to
    ]
