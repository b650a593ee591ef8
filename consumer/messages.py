"""The responses of the service, as far as a consumer needs them. Unknown members are ignored."""

from __future__ import annotations

import msgspec


class SnapshotHeader(msgspec.Struct):
    """The first line of a snapshot: the token to read changes from afterwards, and the number of records."""

    resource: str
    token: str
    count: int


class SnapshotRecord(msgspec.Struct):
    """A record of a snapshot. `content` is the hash of its content, 16 hexadecimal digits.

    An `id` is unique within its resource; a record that moves to another company keeps it.
    """

    company: str
    id: str
    sequence: int
    time: str
    content: str
    record: msgspec.Raw

    @property
    def cursor(self) -> str:
        """The value of `after` that resumes a snapshot after this record."""
        return f"{self.company}:{self.id}"


class SnapshotTrailer(msgspec.Struct):
    """The last line of a complete snapshot: the count and digest of the records in this response."""

    complete: bool
    count: int
    digest: str


class Change(msgspec.Struct):
    """A new or changed record. With a `reason` it is a removal, without content and record."""

    resource: str
    company: str
    id: str
    sequence: int
    time: str
    content: str = ""
    record: msgspec.Raw = msgspec.Raw()
    reason: str | None = None


class ChangeBatch(msgspec.Struct):
    """Changes in the order to apply them, and the token after them; `at_end` if these are the last published ones."""

    changes: list[Change]
    next: str
    at_end: bool


class DigestRecord(msgspec.Struct):
    """The identifier and content hash of a record."""

    id: str
    content: str


class BucketSummary(msgspec.Struct):
    """The records whose SHA-256 of the identifier begins with `prefix`, listed if `prefix` has 4 digits."""

    prefix: str
    count: int
    digest: str
    unsettled: int
    records: list[DigestRecord] = []


class DigestResponse(msgspec.Struct):
    """The count and digest of a resource, or of some buckets. `unsettled` counts unpublished changes in it."""

    count: int
    digest: str
    unsettled: int
    buckets: list[BucketSummary]


class ProblemDetails(msgspec.Struct):
    """The body of an error (RFC 9457)."""

    code: str = ""
    detail: str = ""
