"""The operations: those of the contract, a module for each resource, and those of the feed."""

from service.operation import Operation
from service.resources import agents, changes, companies, digest, listings, offices, snapshot, sold_listings, teams

OPERATIONS: tuple[Operation, ...] = (
    *listings.OPERATIONS,
    *sold_listings.OPERATIONS,
    *agents.OPERATIONS,
    *offices.OPERATIONS,
    *teams.OPERATIONS,
    *companies.OPERATIONS,
)
# Beside the contract: what keeps a copy (decision 12).
FEED_OPERATIONS: tuple[Operation, ...] = (*changes.OPERATIONS, *snapshot.OPERATIONS, *digest.OPERATIONS)
