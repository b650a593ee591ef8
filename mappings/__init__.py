"""What a record is: the one declaration per resource that service and indexer share."""

from mappings.agent import AGENT
from mappings.company import COMPANY
from mappings.listing import LISTING, SOLD_LISTING
from mappings.office import OFFICE
from mappings.resource import Resource
from mappings.team import TEAM

# Companies first: every other resource refers to them.
RESOURCES: tuple[Resource, ...] = (COMPANY, OFFICE, AGENT, TEAM, LISTING, SOLD_LISTING)
# What a key can be granted or refused: every group that a field is guarded by.
FIELD_GROUPS: frozenset[str] = frozenset(field.group for resource in RESOURCES for field in resource.fields) - {""}

__all__ = ["AGENT", "COMPANY", "FIELD_GROUPS", "LISTING", "OFFICE", "RESOURCES", "SOLD_LISTING", "TEAM", "Resource"]
