"""The responses of the service, as far as a consumer needs them. Unknown members are ignored.

Every member is checked: a service that is broken or hostile must not crash a program that reads it.
"""

import datetime as dt
from typing import Annotated, Any, TypedDict

import msgspec

# The service's own limits are 128 characters for identifiers, none of them a control character, and some 2,000 for
# tokens.
Identifier = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]{1,512}\Z")]
Token = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_,.~-]{1,4096}\Z")]
# A sequence number, or a number of records: a 64-bit integer, as SQLite stores it.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# A 64-bit hash or sum of hashes.
Hash = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]
Time = Annotated[str, msgspec.Meta(max_length=40)]
BucketPrefix = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{2}|[0-9a-f]{4})\Z")]


class SnapshotHeader(msgspec.Struct):
    """The first line of a snapshot: the token to read changes from afterwards, and the number of records."""

    resource: Identifier
    token: Token
    count: Count


class _WithRecord:
    """What has the JSON of a record in `record`."""

    __slots__ = ()
    record: msgspec.Raw

    @property
    def size(self) -> int:
        """The bytes of the record."""
        return len(self.record)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a dictionary; raise ValueError for a removal, which has none."""
        if not self.record:
            raise ValueError("a removal has no record")
        decoded: dict[str, Any] = msgspec.json.decode(self.record)
        return decoded


class SnapshotRecord(_WithRecord, msgspec.Struct):
    """A record of a snapshot. `content` is the hash of its content, 16 hexadecimal digits.

    `exact` has numbers as the source has them that are rounded in the record.
    An `id` is unique within its resource; a record that moves to another company keeps it.
    """

    company: Identifier
    id: Identifier
    sequence: Count
    time: Time
    content: Hash
    record: msgspec.Raw
    exact: dict[str, float] = {}

    def __post_init__(self) -> None:
        _require_storable(self.company, self.id, self.time, self.record)

    @property
    def cursor(self) -> str:
        """The value of `after` that resumes a snapshot after this record."""
        return f"{self.company}:{self.id}"


class SnapshotTrailer(msgspec.Struct):
    """The last line of a complete snapshot: the count and digest of the records in this response."""

    complete: bool
    count: Count
    digest: Hash


class Previous(TypedDict, total=False):
    """The values that a change of price or status replaced."""

    ListPrice: int | None
    SoldPrice: int | None
    Status: str | None


class Change(_WithRecord, msgspec.Struct):
    """A new or changed record. With a `reason` it is a removal, without content and record.

    `changed` are the groups of fields that changed since the feed was last read to its end, None if the record is new
    to the reader. `first_seen` is when the service first recorded it.
    """

    resource: Identifier
    company: Identifier
    id: Identifier
    sequence: Count
    time: Time
    content: Hash = ""
    record: msgspec.Raw = msgspec.Raw()
    exact: dict[str, float] = {}
    reason: str | None = None
    changed: list[str] | None = None
    previous: Previous = {}
    first_seen: Time | None = None

    def __post_init__(self) -> None:
        _require_storable(self.company, self.id, self.time, self.record if self.reason is None else b"{}")
        if self.reason is None and not self.content:
            raise ValueError("a change without a reason has no content")


class ChangeBatch(msgspec.Struct):
    """Changes in the order to apply them, and the token after them; `at_end` if these are the last published ones."""

    changes: list[Change]
    next: Token
    at_end: bool


class DigestRecord(msgspec.Struct):
    """The identifier and content hash of a record."""

    id: Identifier
    content: Hash


class BucketSummary(msgspec.Struct):
    """The records whose SHA-256 of the identifier begins with `prefix`, listed if `prefix` has 4 digits."""

    prefix: BucketPrefix
    count: Count
    digest: Hash
    unsettled: Count
    records: list[DigestRecord] = []


class DigestResponse(msgspec.Struct):
    """The count and digest of a resource, or of some buckets. `unsettled` counts unpublished changes in it."""

    count: Count
    digest: Hash
    unsettled: Count
    buckets: list[BucketSummary]


class ListedFile(msgspec.Struct):
    """A published file: whole records, or rows of a `table`, which is the resource or a list in its records.

    `last` is the cursor of its last record; files and records are in the order of a snapshot.
    """

    href: Annotated[str, msgspec.Meta(pattern=r"\A/[A-Za-z0-9_./-]{1,512}(\?[^\x00-\x20]{0,512})?\Z")]
    format: Annotated[str, msgspec.Meta(max_length=40)]
    bytes: Count
    records: Count
    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    last: Annotated[str, msgspec.Meta(max_length=1024)]
    table: Annotated[str, msgspec.Meta(max_length=100)] = ""

    @property
    def name(self) -> str:
        """Its name, the last part of the path."""
        return self.href.partition("?")[0].rpartition("/")[2]


class PublishedFiles(msgspec.Struct):
    """The files with all records of one company's resource at one moment; changes continue from the token.

    `changes` are the files of all changes from the requested token to `token`, in order; None if there are none.
    """

    resource: Identifier
    token: Token
    published: Time
    records: Count
    digest: Hash
    files: Annotated[list[ListedFile], msgspec.Meta(max_length=100_000)]
    changes: Annotated[list[ListedFile], msgspec.Meta(max_length=100_000)] | None = None

    def __post_init__(self) -> None:
        dt.datetime.fromisoformat(self.published)

    def of_format(self, name: str) -> list[ListedFile]:
        """Return the files of a format; none if they do not have all records."""
        files = [file for file in self.files if file.format == name]
        own = sum(file.records for file in files if file.table in {"", self.resource})
        return files if own == self.records else []


class ProblemDetails(msgspec.Struct):
    """The body of an error (RFC 9457)."""

    code: str = ""
    detail: str = ""


def _require_storable(company: str, identifier: str, time: str, record: bytes | msgspec.Raw) -> None:
    """Raise ValueError for lone surrogates, a time that is not one, or a record that is not an object in UTF-8."""
    f"{company}{identifier}".encode()
    dt.datetime.fromisoformat(time)
    text = bytes(record)
    if not text.startswith(b"{"):
        raise ValueError("record is not an object")
    text.decode()
