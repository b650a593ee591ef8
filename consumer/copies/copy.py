"""What a copy is to those who fill, compare and export it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from consumer.answers import Header, Page, Record


class Place(NamedTuple):
    """How far the copy of a resource is.

    `token` covers what the copy holds, None before its first snapshot is complete. While a snapshot is under way
    `coming` is its first token, `after` the place of the last record that is kept, `expected` its number of records.
    `version` counts what changed the copy, `exported` is the version of its last export and of which kind that was.
    """

    token: str | None = None
    coming: str | None = None
    after: str | None = None
    expected: int = 0
    version: int = 0
    exported: str | None = None


class Row(NamedTuple):
    """A record as it is kept: the record itself in JSON. `is_sound`: the bytes are those that were written."""

    id: str
    company: str
    sequence: int
    time: str
    content: str
    record: bytes
    is_sound: bool


class Copy(Protocol):
    """A copy of some resources. Every call is one transaction: killed in it, the copy is as before the call."""

    def place(self, resource: str) -> Place:
        """Return how far a resource is."""

    def begin(self, resource: str, header: Header) -> None:
        """Begin a snapshot; what is held stays until it is complete."""

    def add(self, resource: str, records: Sequence[Record]) -> None:
        """Keep the next records of the snapshot under way."""

    def complete(self, resource: str) -> int:
        """End the snapshot: go on from its token, remove what it did not have, and return how much that was."""

    def apply(self, page: Page, resources: Sequence[str]) -> None:
        """Apply changes in their order, and keep their token for the resources that it covers."""

    def count(self, resource: str) -> int:
        """Return how many records are held."""

    def rows(self, resource: str) -> Iterator[Row]:
        """Yield the records with rising identifiers."""

    def note_export(self, resource: str, exported: str) -> None:
        """Keep what was exported last."""
