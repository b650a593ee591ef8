"""The resources: one declaration each, shared by service and indexer."""

from mappings.agent import AGENT
from mappings.company import COMPANY
from mappings.listing import LISTING, SOLD_LISTING
from mappings.office import OFFICE
from mappings.resource import Resource
from mappings.team import TEAM

# Companies first: every other resource refers to them.
RESOURCES: tuple[Resource, ...] = (COMPANY, OFFICE, AGENT, TEAM, LISTING, SOLD_LISTING)
# The field groups that a key can be granted or denied.
FIELD_GROUPS: frozenset[str] = frozenset(field.group for resource in RESOURCES for field in resource.fields) - {""}

__all__ = ["AGENT", "COMPANY", "FIELD_GROUPS", "LISTING", "OFFICE", "RESOURCES", "SOLD_LISTING", "TEAM", "Resource"]
