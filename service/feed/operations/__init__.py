"""The operations of the change feed: `/changes`, `/snapshot/{resource}`, `/digest/{resource}` (decision 12)."""

from service.feed.operations import changes, digest, snapshot
from service.operation import Operation

FEED_OPERATIONS: tuple[Operation, ...] = (*changes.OPERATIONS, *snapshot.OPERATIONS, *digest.OPERATIONS)
