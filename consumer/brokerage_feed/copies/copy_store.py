"""The interface of a copy for updates, comparison and export."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from brokerage_feed.messages import ChangeBatch, SnapshotHeader, SnapshotRecord


class CopyCheckpoint(NamedTuple):
    """The position of the copy of a resource in the feed.

    `token` is None before the first snapshot is complete. During a snapshot `pending_token` is its token, `after` the
    cursor of the last stored record and `expected` its number of records. `version` increases with every change of the
    copy; `exported` is the format and version of the last export.
    """

    token: str | None = None
    pending_token: str | None = None
    after: str | None = None
    expected: int = 0
    version: int = 0
    exported: str | None = None


class CopyRow(NamedTuple):
    """A stored record. `record` is JSON; `is_intact` is whether its checksum matches."""

    id: str
    company: str
    sequence: int
    time: str
    content: str
    record: bytes
    is_intact: bool


class CopyStore(Protocol):
    """A copy of some resources. Every call that writes is one transaction."""

    def checkpoint(self, resource: str) -> CopyCheckpoint:
        """Return the checkpoint of a resource."""

    def begin_snapshot(self, resource: str, header: SnapshotHeader) -> None:
        """Begin a snapshot; the present records stay until it is complete."""

    def add_snapshot_records(self, resource: str, records: Sequence[SnapshotRecord]) -> None:
        """Store the next records of the snapshot."""

    def complete_snapshot(self, resource: str) -> int:
        """Complete the snapshot: adopt its token, and remove and count the records that it did not have."""

    def apply_changes(self, page: ChangeBatch, resources: Sequence[str]) -> None:
        """Apply changes in their order, and store their token for the resources that it covers."""

    def count(self, resource: str) -> int:
        """Return the number of records."""

    def rows(self, resource: str) -> Iterator[CopyRow]:
        """Yield the records in the order of their identifiers."""

    def record_export(self, resource: str, exported: str) -> None:
        """Store the format and version of the last export."""
