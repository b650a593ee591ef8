"""The operations of the change feed: `/changes`, `/snapshot/{resource}`, `/digest/{resource}` (decision 12)."""

from service.feed.changes import CHANGES_OPERATIONS
from service.feed.digest import DIGEST_OPERATIONS
from service.feed.snapshot import SNAPSHOT_OPERATIONS
from service.operation import Operation

FEED_OPERATIONS: tuple[Operation, ...] = (*CHANGES_OPERATIONS, *SNAPSHOT_OPERATIONS, *DIGEST_OPERATIONS)
