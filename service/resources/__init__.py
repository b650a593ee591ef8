"""The operations of the contract: listings, and those who sell them."""

from service.operation import Operation
from service.resources import listings, organization

OPERATIONS: tuple[Operation, ...] = (*listings.OPERATIONS, *organization.OPERATIONS)
