"""What the service answers, as far as a consumer needs it. Members that are added later are ignored."""

from __future__ import annotations

import msgspec

# Each refers only to those before it, and the service tells them in this order.
RESOURCES = ("companies", "offices", "agents", "teams", "listings", "sold_listings")


class Header(msgspec.Struct):
    """The first line of a snapshot. `token` is where changes go on from; `count` is of the records that follow."""

    resource: str
    token: str
    count: int


class Record(msgspec.Struct):
    """A record as a snapshot tells it. `content` is the hash of its content, 16 hexadecimal digits.

    An `id` is one of its resource, whatever the company: a record that moves keeps it.
    """

    company: str
    id: str
    sequence: int
    time: str
    content: str
    record: msgspec.Raw

    @property
    def place(self) -> str:
        """Where a snapshot goes on behind this record."""
        return f"{self.company}:{self.id}"


class Last(msgspec.Struct):
    """The last line of a snapshot, without which it is not whole: count and digest of the records of its answer."""

    complete: bool
    count: int
    digest: str


class Change(msgspec.Struct):
    """A record that is new or changed, or with a `reason` one that has left: then it has neither content nor record."""

    resource: str
    company: str
    id: str
    sequence: int
    time: str
    content: str = ""
    record: msgspec.Raw = msgspec.Raw()
    reason: str | None = None


class Page(msgspec.Struct):
    """Some changes in the order to apply them in, and the token behind them. `at_end`: no more were published."""

    changes: list[Change]
    next: str
    at_end: bool


class Named(msgspec.Struct):
    """An identifier and the content that it has at the service."""

    id: str
    content: str


class Bucket(msgspec.Struct):
    """The records of which the SHA-256 of the identifier begins with `prefix`. Of 4 digits it has its records."""

    prefix: str
    count: int
    digest: str
    unsettled: int
    records: list[Named] = []


class Digest(msgspec.Struct):
    """Count and digest of a resource, or of some buckets of it. `unsettled` are ahead of what changes tell yet."""

    count: int
    digest: str
    unsettled: int
    buckets: list[Bucket]


class Problem(msgspec.Struct):
    """What an error says (RFC 9457)."""

    code: str = ""
    detail: str = ""
