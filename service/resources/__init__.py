"""The operations of the contract: one module per resource."""

from service.operation import Operation
from service.resources import agents, companies, listings, offices, sold_listings, teams

OPERATIONS: tuple[Operation, ...] = (
    *listings.OPERATIONS,
    *sold_listings.OPERATIONS,
    *agents.OPERATIONS,
    *offices.OPERATIONS,
    *teams.OPERATIONS,
    *companies.OPERATIONS,
)
