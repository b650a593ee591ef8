"""The vocabulary of search fields: what is indexed beside the public record, its type, and what it is read from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# An Elasticsearch field mapping.
Mapping = dict[str, object]


class Origin(Enum):
    """Where the indexer reads a search field's value."""

    RECORD = "record"  # a member of the public record
    ENVELOPE = "envelope"  # a member of the envelope round it
    INDEXER = "indexer"  # given by the indexer itself


@dataclass(frozen=True, kw_only=True)
class SearchField:
    """One indexed field of a document.

    `sources` are the members it is read from; several, or a list, make a field of several values.
    """

    name: str
    mapping: Mapping
    sources: tuple[str, ...] = ()
    origin: Origin = Origin.RECORD
    is_day: bool = False  # the source is YYYY-MM-DD, the field is milliseconds of its first moment (UTC)
    is_presence: bool = False  # the field says whether the source holds anything
    is_moment: bool = False  # the source is ISO 8601, the field is milliseconds since 1970

    def __hash__(self) -> int:
        """Hash by name, which is unique within a resource."""
        return hash(self.name)


# A filter-only keyword needs no doc values: nothing sorts by it or reads it back.
_FILTERED: Mapping = {"type": "keyword", "doc_values": False}
# A keyword that is only read back needs no index.
_READ_BACK: Mapping = {"type": "keyword", "index": False}
# A keyword that is read from the source alone.
_STORED: Mapping = {"type": "keyword", "index": False, "doc_values": False}
_MOMENT: Mapping = {"type": "long"}


def keyword(name: str, *sources: str) -> SearchField:
    """Declare an exact-match filter over one or several members of the record."""
    return SearchField(name=name, mapping=_FILTERED, sources=sources or (name,))


def readable_keyword(name: str) -> SearchField:
    """Declare an exact-match filter that `timestamps_only` also answers from doc values."""
    return SearchField(name=name, mapping={"type": "keyword"}, sources=(name,))


def envelope_keyword(name: str) -> SearchField:
    """Declare an exact-match filter over a member of the envelope."""
    return SearchField(name=name, mapping=_FILTERED, sources=(name,), origin=Origin.ENVELOPE)


def read_back(name: str, source: str) -> SearchField:
    """Declare a value that `timestamps_only` answers from doc values, without touching the record."""
    return SearchField(name=name, mapping=_READ_BACK, sources=(source,))


def envelope_read_back(name: str, source: str) -> SearchField:
    """Declare a value of the envelope that `timestamps_only` answers from doc values."""
    return SearchField(name=name, mapping=_READ_BACK, sources=(source,), origin=Origin.ENVELOPE)


def flag(name: str, source: str) -> SearchField:
    """Declare a truth value to filter by."""
    return SearchField(name=name, mapping={"type": "boolean", "doc_values": False}, sources=(source,))


def presence(name: str, source: str) -> SearchField:
    """Declare a truth value that says whether `source` holds anything."""
    return SearchField(name=name, mapping={"type": "boolean", "doc_values": False}, sources=(source,), is_presence=True)


def day(name: str, source: str) -> SearchField:
    """Declare a day of the record as a moment in milliseconds to compare with."""
    return SearchField(name=name, mapping=_MOMENT, sources=(source,), is_day=True)


def envelope_moment(name: str, source: str) -> SearchField:
    """Declare an ISO 8601 moment of the envelope as milliseconds to compare with."""
    return SearchField(name=name, mapping=_MOMENT, sources=(source,), origin=Origin.ENVELOPE, is_moment=True)


def envelope_code(name: str) -> SearchField:
    """Declare a small number of the envelope to filter by; kept as a keyword since only equality is asked."""
    return SearchField(name=name, mapping=_FILTERED, sources=(name,), origin=Origin.ENVELOPE)


# On every document of every resource.
BOOKKEEPING = (
    # Sorts the answers of several companies, which begin behind a cursor by its skipper. It is not indexed, for the
    # reason given for the feed key; a record is found by its identifier through `_id`, which is the same.
    SearchField(name="id", mapping={"type": "keyword", "index": False}, origin=Origin.INDEXER),
    # `<company key>:<id>`: sorts the index, so that one range is company filter and cursor in one. It must not be
    # indexed: a range over an indexed keyword visits every term, a range over doc values seeks by the skipper.
    SearchField(name="feed_key", mapping={"type": "keyword", "index": False}, origin=Origin.INDEXER),
    SearchField(name="company", mapping=_FILTERED, origin=Origin.INDEXER),
    # The filter clock of `updated_since`, milliseconds since 1970.
    SearchField(name="clock", mapping=_MOMENT, origin=Origin.INDEXER),
    # The place of the last change in the order of all changes of the resource.
    SearchField(name="sequence", mapping=_MOMENT, origin=Origin.INDEXER),
    # The external version, read back by rebuilds; 64 bits of content hash tell changed from touched.
    SearchField(name="version", mapping={"type": "long", "index": False}, origin=Origin.INDEXER),
    SearchField(name="content", mapping={"type": "long", "index": False}, origin=Origin.INDEXER),
    # A tombstone: keeps the version of a deleted record so that a late update cannot bring it back.
    SearchField(name="deleted", mapping={"type": "boolean"}, origin=Origin.INDEXER),
    # On tombstones alone: why there is one (`mappings.document.Reason`).
    SearchField(name="reason", mapping=_READ_BACK, origin=Origin.INDEXER),
    # On departures alone: the company that has the record now.
    SearchField(name="moved_to", mapping=_STORED, origin=Origin.INDEXER),
    # For digests (`mappings.digest`): the record's bucket, of which ranges are asked; on all but tombstones the halves
    # of its hash, which are added up.
    SearchField(name="bucket", mapping={"type": "integer"}, origin=Origin.INDEXER),
    SearchField(name="proof_high", mapping={"type": "long", "index": False}, origin=Origin.INDEXER),
    SearchField(name="proof_low", mapping={"type": "long", "index": False}, origin=Origin.INDEXER),
)
