"""The vocabulary of search fields: what is indexed next to the record, its type and its source."""

from dataclasses import dataclass
from enum import Enum
from functools import partial

# An Elasticsearch field mapping.
FieldMapping = dict[str, object]


class FieldOrigin(Enum):
    RECORD = "record"  # a member of the public record
    ENVELOPE = "envelope"  # a member of the envelope around it
    INDEXER = "indexer"  # assigned by the indexer itself


class Conversion(Enum):
    VERBATIM = "verbatim"
    PRESENCE = "presence"  # true if the member is not empty
    REFUSAL = "refusal"  # true if the member is false, else no value
    DAY = "day"  # YYYY-MM-DD to the milliseconds since 1970 of its start (UTC)
    TIMESTAMP = "timestamp"  # ISO 8601, or Unix seconds, to milliseconds since 1970
    EXACT = "exact"  # a number as the source has it, which may be rounded in the record, or be a text there
    FEATURE = "feature"  # the values of one property feature
    COUNT = "count"  # the number of elements of a list, no value if it is empty
    TEXT = "text"  # a value of any type as text
    OPEN_HOUSES = "open houses"  # a token for each open house of a listing (`mappings.open_houses`)


@dataclass(frozen=True, kw_only=True)
class SearchField:
    """One indexed field of a document.

    `sources` are the members it is read from; several, or a list, make a field of several values. `refers_to` is the
    alias of the resource whose identifiers the values are, if they are any, `feature` the name of a property feature.
    """

    name: str
    mapping: FieldMapping
    sources: tuple[str, ...] = ()
    origin: FieldOrigin = FieldOrigin.RECORD
    conversion: Conversion = Conversion.VERBATIM
    refers_to: str = ""
    feature: str = ""

    def __hash__(self) -> int:
        """Hash by name, which is unique within a resource."""
        return hash(self.name)


# A keyword for filters needs no doc values: nothing sorts by it or reads it.
_FILTER_KEYWORD: FieldMapping = {"type": "keyword", "doc_values": False}
# A keyword that is only read from doc values needs no index.
_DOC_VALUE_KEYWORD: FieldMapping = {"type": "keyword", "index": False}
# A keyword that is read from the source alone.
_SOURCE_ONLY_KEYWORD: FieldMapping = {"type": "keyword", "index": False, "doc_values": False}
_FLAG: FieldMapping = {"type": "boolean", "doc_values": False}
# Numbers keep their doc values: a broad range is then checked only on the records that match the other clauses.
_LONG: FieldMapping = {"type": "long"}
_DOUBLE: FieldMapping = {"type": "double"}


def keyword(name: str, *sources: str, refers_to: str = "") -> SearchField:
    """Declare an exact-match filter on one or several string members of the record."""
    return SearchField(name=name, mapping=_FILTER_KEYWORD, sources=sources or (name,), refers_to=refers_to)


def feature(name: str, feature_name: str) -> SearchField:
    """Declare an exact-match filter on the values of a property feature."""
    return SearchField(
        name=name,
        mapping=_FILTER_KEYWORD,
        sources=("PropertyFeatures",),
        conversion=Conversion.FEATURE,
        feature=feature_name,
    )


def _derived(
    mapping: FieldMapping,
    name: str,
    source: str = "",
    *,
    origin: FieldOrigin = FieldOrigin.RECORD,
    conversion: Conversion = Conversion.VERBATIM,
) -> SearchField:
    """Declare a field that is read from one member, by default from the one of its name."""
    return SearchField(name=name, mapping=mapping, sources=(source or name,), origin=origin, conversion=conversion)


# From members of the record, by the name of the field and of its member.
keyword_with_doc_values = partial(_derived, {"type": "keyword"})  # to filter and sort by, and to read
whole_number = partial(_derived, _LONG)
decimal = partial(_derived, _DOUBLE, conversion=Conversion.EXACT)  # with the source's fraction; 64-bit floating point
text = partial(_derived, _FILTER_KEYWORD, conversion=Conversion.TEXT)
sortable_text = partial(_derived, {"type": "keyword"}, conversion=Conversion.TEXT)
element_count = partial(_derived, {"type": "integer"}, conversion=Conversion.COUNT)
open_houses = partial(_derived, {"type": "keyword"}, conversion=Conversion.OPEN_HOUSES)
date_millis = partial(_derived, _LONG, conversion=Conversion.DAY)
timestamp = partial(_derived, _LONG, conversion=Conversion.TIMESTAMP)
flag = partial(_derived, _FLAG)
presence = partial(_derived, _FLAG, conversion=Conversion.PRESENCE)
refusal = partial(_derived, _FLAG, conversion=Conversion.REFUSAL)
doc_value = partial(_derived, _DOC_VALUE_KEYWORD)  # read by `timestamps_only`, without loading the record
# From members of the envelope.
envelope_keyword = partial(_derived, _FILTER_KEYWORD, origin=FieldOrigin.ENVELOPE)
envelope_doc_value = partial(_derived, _DOC_VALUE_KEYWORD, origin=FieldOrigin.ENVELOPE)
envelope_text = partial(_derived, _SOURCE_ONLY_KEYWORD, origin=FieldOrigin.ENVELOPE)  # read with the record alone
envelope_object = partial(_derived, {"type": "object", "enabled": False}, origin=FieldOrigin.ENVELOPE)
envelope_timestamp = partial(_derived, _LONG, origin=FieldOrigin.ENVELOPE, conversion=Conversion.TIMESTAMP)


# On every document of every resource.
SYSTEM_FIELDS = (
    # Sorts the pages of several companies; the doc-values skipper seeks to the cursor. It is not indexed, for the
    # reason given for the feed key; records are looked up through `_id`, which has the same value.
    SearchField(name="id", mapping={"type": "keyword", "index": False}, origin=FieldOrigin.INDEXER),
    # `<company key>:<id>`: sorts the index, so that one range is company filter and cursor in one. It must not be
    # indexed: a range over an indexed keyword visits every term, a range over doc values seeks by the skipper.
    SearchField(name="feed_key", mapping={"type": "keyword", "index": False}, origin=FieldOrigin.INDEXER),
    SearchField(name="company", mapping=_FILTER_KEYWORD, origin=FieldOrigin.INDEXER, refers_to="companies"),
    # The filter clock of `updated_since`, milliseconds since 1970.
    SearchField(name="clock", mapping=_LONG, origin=FieldOrigin.INDEXER),
    # The position of the last change in the order of all changes of the resource.
    SearchField(name="sequence", mapping=_LONG, origin=FieldOrigin.INDEXER),
    # The external version, read by rebuilds; the 64-bit content hash distinguishes changed from touched.
    SearchField(name="version", mapping={"type": "long", "index": False}, origin=FieldOrigin.INDEXER),
    SearchField(name="content", mapping={"type": "long", "index": False}, origin=FieldOrigin.INDEXER),
    # A tombstone: it retains the version of a deleted record, so that a late update cannot restore it.
    SearchField(name="deleted", mapping={"type": "boolean"}, origin=FieldOrigin.INDEXER),
    # On tombstones, and on records that were withdrawn: the reason (`mappings.stored_document.TombstoneReason`). On
    # records whose source lacks names: which (`mappings.stored_document.lacking`).
    SearchField(name="reason", mapping=_DOC_VALUE_KEYWORD, origin=FieldOrigin.INDEXER),
    # On tombstones of moves only: the company that has the record now.
    SearchField(name="moved_to", mapping=_SOURCE_ONLY_KEYWORD, origin=FieldOrigin.INDEXER),
    # For digests (`mappings.stored_document`): the bucket of the record, queried by range; on all but tombstones,
    # the halves of its hash, which are summed.
    SearchField(name="bucket", mapping={"type": "integer"}, origin=FieldOrigin.INDEXER),
    SearchField(name="proof_high", mapping={"type": "long", "index": False}, origin=FieldOrigin.INDEXER),
    SearchField(name="proof_low", mapping={"type": "long", "index": False}, origin=FieldOrigin.INDEXER),
)

# On every document, too, except on those that an earlier version wrote.
HISTORY_FIELDS = (
    # The sequences of the record's creation and of the last change of each group of fields, each below the group's
    # number (`mappings.stored_document.change_number`): a range selects what changed in a group since a sequence.
    SearchField(name="changed", mapping=_LONG, origin=FieldOrigin.INDEXER),
    # What is remembered of earlier states (`mappings.history.Past`), read by look-ups.
    SearchField(name="past", mapping={"type": "binary", "doc_values": True}, origin=FieldOrigin.INDEXER),
    # How many values are remembered, if any.
    SearchField(name="history_count", mapping={"type": "integer"}, origin=FieldOrigin.INDEXER),
)
