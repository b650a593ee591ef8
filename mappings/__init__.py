"""The resources: one declaration each, shared by service and indexer, and the references between them."""

from typing import NamedTuple

from mappings.listing import LISTING, SOLD_LISTING
from mappings.organization import AGENT, COMPANY, OFFICE, TEAM
from mappings.resource import Resource
from mappings.search_fields import SearchField

# Companies first: every other resource refers to them.
RESOURCES: tuple[Resource, ...] = (COMPANY, OFFICE, AGENT, TEAM, LISTING, SOLD_LISTING)
# The field groups that a key can be granted or denied.
FIELD_GROUPS: frozenset[str] = frozenset(field.group for resource in RESOURCES for field in resource.fields) - {""}

__all__ = ["AGENT", "COMPANY", "FIELD_GROUPS", "LISTING", "OFFICE", "RESOURCES", "SOLD_LISTING", "TEAM", "Resource"]


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
