"""Entries of the feed: what a hit becomes for the reader that asks."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, cast

import msgspec
import orjson

from cluster.control_index import Mark
from mappings import LISTING, RESOURCES
from mappings.fields import View
from mappings.listing import ON_MARKET_STATUSES
from mappings.resource import ChangeGroup, Resource
from mappings.stored_document import (
    BUCKETS,
    COARSE_BUCKETS,
    CREATION,
    RECORD_DELIMITER,
    RECORD_KEY,
    Digest,
    TombstoneReason,
    change_number,
    sorted_companies,
    split_change,
    split_document_id,
)
from mappings.visibility import ADDRESS_SWITCH, LISTING_SWITCH, WHOLE_CONTENT, ShownContent, refuses
from service.errors import DataReplaced, InvalidRequest, RebuildDue
from service.http.responses import JsonBytes
from service.projection import Variant
from service.request_context import UNDERSCORE_PARAMETER, RequestContext
from service.search.query import HIDDEN_ADDRESS, Body, Clause, lacks_field, terms, used_fields, was_withheld
from service.search.responses import malformed_response
from service.search.responses import parse_hits as parsed_hits
from service.telemetry.observation import UNMARKED_RESPONSES
from service.token import view_fingerprint

_HALF_MODULUS = 2**32
_MODULUS = 2**64


class _SumValue(msgspec.Struct):
    value: float


class _Halves(msgspec.Struct):
    proof_high: _SumValue
    proof_low: _SumValue

    @property
    def total(self) -> int:
        return int(self.proof_high.value) * _HALF_MODULUS + int(self.proof_low.value)


class _HiddenAddresses(_Halves):
    """The records that hide their address: their hashes that cover it, and those that do not."""

    shown_high: _SumValue
    shown_low: _SumValue

    @property
    def correction(self) -> int:
        return _Halves(self.shown_high, self.shown_low).total - self.total


class HashSums(_Halves):
    """The aggregated hashes of a set of records."""

    doc_count: int
    hidden_addresses: _HiddenAddresses | None = None  # for keys with a display licence

    @property
    def digest(self) -> Digest:
        """The digest of these records."""
        correction = self.hidden_addresses.correction if self.hidden_addresses else 0
        return Digest(self.doc_count, (self.total + correction) % _MODULUS)


def sum_aggregations(content: ShownContent) -> Body:
    """Return the aggregations of `HashSums`."""
    sums = _sums(content, "proof")
    if not content.address:
        return sums
    both = {**sums, **_sums(content.without_address, "shown")}
    return {**sums, "hidden_addresses": {"filter": HIDDEN_ADDRESS, "aggs": both}}


def _sums(content: ShownContent, prefix: str) -> Body:
    halves = {"high": content.proof_high, "low": content.proof_low}
    return {f"{prefix}_{half}": {"sum": {"field": field}} for half, field in halves.items()}


def digest_body(query: Clause, content: ShownContent) -> Body:
    """Return the body that sums the hashes of all matches, by bucket: a single sum could exceed 2**53."""
    sums = sum_aggregations(content)
    buckets = {"histogram": {"field": "bucket", "interval": BUCKETS // COARSE_BUCKETS}, "aggs": sums}
    return {"size": 0, "track_total_hits": False, "query": query, "aggs": {"buckets": buckets}}


def parse_digest(response: dict[str, Any]) -> Digest:
    """Return the digest from the response to `digest_body`."""
    sums = msgspec.convert(response["aggregations"]["buckets"]["buckets"], list[HashSums])
    return sum((bucket.digest for bucket in sums), Digest())


# Neither occurs in the search fields, whose strings have escaped quotes; records are skipped.
SOURCE_KEY = b'"_source":'
_SORT_KEY = b',"sort":['


class DocumentHeader(msgspec.Struct, gc=False):
    """The search fields that the feed publishes or filters by."""

    id: str
    feed_key: str
    company: str
    clock: int  # milliseconds since 1970
    sequence: int
    content: int  # signed 64 bits
    deleted: bool = False
    reason: str | None = None
    moved_to: str | None = None
    status: str | None = None
    deactivated: int | None = None  # milliseconds since 1970
    content_without_address: int | None = None  # for keys with a display licence, of records that hide their address
    exact: dict[str, float] = {}  # numbers that are rounded in the record
    changed: list[int] = []  # `mappings.stored_document.change_number`; none if an earlier version wrote the document
    past: str = ""
    history: dict[str, Any] | None = None  # what the source says of earlier states


DecodeHeader = Callable[[bytes | bytearray], "DocumentHeader"]


class Hit(NamedTuple):
    """One document; the record of a tombstone is None."""

    header: DocumentHeader
    record: JsonBytes | None


@cache
def _header_type(content: ShownContent) -> type[DocumentHeader]:
    """Return the type of a header whose hashes are read from the search fields of that content."""
    renamed = {"content": content.content, "content_without_address": content.without_address.content}
    own: list[tuple[str, Any] | tuple[str, Any, Any]] = [("content", int)]
    if content.address:
        own.append(("content_without_address", int | None, None))
    defined: Any = msgspec.defstruct("DocumentHeader", own, bases=(DocumentHeader,), rename=renamed, gc=False)
    return cast("type[DocumentHeader]", defined)


@cache
def _header_decoder(content: ShownContent) -> DecodeHeader:
    return msgspec.json.Decoder(_header_type(content)).decode


_decode_tombstone = _header_decoder(WHOLE_CONTENT)


def decode_hits(response: bytes | bytearray, content: ShownContent = WHOLE_CONTENT) -> list[Hit]:
    """Return the documents of a response, in order. `content` is the hash that is shown of records.

    Raise RebuildDue for a document of an index without the hash that a display licence needs.
    """
    hits = _decode_hits(response, content)
    for hit in hits if content.address else ():
        if hit.record is not None and refuses(hit.record, ADDRESS_SWITCH):
            hit.header.content = _required(hit.header.content_without_address)
    return hits


def _required(content: int | None) -> int:
    if content is None:
        raise RebuildDue
    return content


def _decode_hits(response: bytes | bytearray, content: ShownContent) -> list[Hit]:
    try:
        hits = list(_split_hits(response, _header_decoder(content)))
    except msgspec.DecodeError:
        raise malformed_response(response) from None
    if all(hit.record is not None or hit.header.deleted for hit in hits):
        return hits
    UNMARKED_RESPONSES.inc()
    return [_parse_hit(hit["_source"], _header_type(content)) for hit in parsed_hits(response)]


def _split_hits(response: bytes | bytearray, decode: DecodeHeader) -> Iterator[Hit]:
    view, find = memoryview(response), response.find
    start = find(SOURCE_KEY)
    while start >= 0:
        start += len(SOURCE_KEY)
        delimiter = find(RECORD_DELIMITER, start)
        # The sort values end the hit of a tombstone; the search does not reach into a record, which is much longer.
        end = find(_SORT_KEY, start, delimiter if delimiter >= 0 else len(response))
        if end < 0 <= delimiter and response.endswith(RECORD_KEY, start, delimiter):
            end = find(RECORD_DELIMITER, delimiter + 1)
            # Replace `,"record":` by the closing brace.
            head = response[start : delimiter - len(RECORD_KEY) - 1] + b"}"
            yield Hit(decode(head), view[delimiter + 1 : end])
        else:
            end = find(_SORT_KEY, start) if end < 0 else end
            yield Hit(_decode_tombstone(response[start:end]), None)
        start = find(SOURCE_KEY, end)


def _parse_hit(source: dict[str, Any], header_type: type[DocumentHeader]) -> Hit:
    record = source.pop("record", None)
    if record is None:
        header_type = DocumentHeader
    return Hit(msgspec.convert(source, header_type), None if record is None else orjson.dumps(record))


class Difference(NamedTuple):
    """What has changed in a record since a sequence: the groups of fields by number; or the record is new.

    `shows_first` is whether it is known and may be shown when the record was first seen: not if it was withheld once.
    """

    groups: dict[int, ChangeGroup]
    is_new: bool
    shows_first: bool


# Of documents of an earlier version: they count as new.
_UNKNOWN = 2**63
ON_MARKET = "on-market"
_ON_MARKET = frozenset(ON_MARKET_STATUSES)


@dataclass(frozen=True)
class FeedView:
    """The records in a request's scope and filters, in the form that its key may read."""

    call: RequestContext

    @property
    def identity(self) -> Hashable:
        """Equal for requests whose records, and their form, are the same."""
        companies, withheld = self.call.scope.companies, self.call.visibility.withheld
        spelling, changed = self.call.parameters.get(UNDERSCORE_PARAMETER, False), self._changed
        display = self.call.visibility.display
        return companies, self._on_market, self._with_deactivated, withheld, spelling, display, changed

    @cached_property
    def fingerprint(self) -> bytes:
        """The fingerprint a token is bound to: a different view needs a new snapshot.

        With other guarded members in a later version the content hashes of the copy are void, too.
        """
        return self._fingerprint(self._changed)

    @property
    def accepted_fingerprints(self) -> set[bytes]:
        """Those of tokens to continue from: who has every change may go on with those of some groups."""
        return {self.fingerprint, self._fingerprint(None)}

    def _fingerprint(self, changed: frozenset[str] | None) -> bytes:
        companies = self.call.scope.companies
        listed = None if companies is None else sorted_companies(companies)
        contents = [self.content(resource).content for resource in RESOURCES]
        licence = (
            [self.call.visibility.display, sorted(self._hidden_with_address)] if self.call.visibility.display else []
        )
        return view_fingerprint(
            listed,
            self._on_market,
            self._with_deactivated,
            sorted(self.call.visibility.withheld),
            contents,
            *licence,
            *([sorted(changed)] if changed else []),
        )

    @property
    def _hidden_with_address(self) -> set[str]:
        return {name for resource in RESOURCES for name in self.content(resource).names}

    @property
    def _on_market(self) -> bool:
        return bool(self.call.parameters.get("market_status") == ON_MARKET)

    @property
    def _with_deactivated(self) -> bool:
        return bool(self.call.parameters.get("include_deactivated"))

    @property
    def _changed(self) -> frozenset[str] | None:
        """The groups of fields that the request asks for the changes of, None for all; raise InvalidRequest."""
        names: frozenset[str] | None = self.call.parameters.get("changed")
        if names and (withheld := sorted(names & self.call.visibility.withheld)):
            raise InvalidRequest.of("changed", f"the key may not see {', '.join(withheld)}.")
        return names

    def groups(self, resource: Resource) -> dict[int, ChangeGroup]:
        """Return the groups of fields, by number, of which changes are named: those asked for that the key may see.

        Those that decide whether a record is in the copy are always among them.
        """
        asked, withheld = self._changed, self.call.visibility.withheld
        deciding = {"status"} if self._on_market or _has_deactivation(resource) else set[str]()
        deciding |= {"display"} if self.call.visibility.display else set[str]()
        return {
            number: group
            for number, group in resource.change_groups.items()
            if group.guard not in withheld and (asked is None or group.name in asked | deciding)
        }

    def changed_clauses(self, resource: Resource, base: int) -> list[Clause]:
        """Return the clauses for what is new, removed, or changed since a sequence in one of the groups asked for."""
        if self._changed is None:
            return []
        numbers = (CREATION, *self.groups(resource))
        since = ({"gt": change_number(group, base), "lt": change_number(group + 1)} for group in numbers)
        return [{"bool": {"should": [{"range": {"changed": bounds}} for bounds in since]}}]

    def variant(self, resource: Resource) -> Variant:
        """Return the record form: the index variant with every optional field."""
        return self.call.variant(resource, View.INDEX, all_flags=True)

    def content(self, resource: Resource) -> ShownContent:
        """Return the content hash that the key may see: it covers nothing that is withheld or hidden from it."""
        return resource.shown_content(self.call.visibility.withheld, self.call.visibility.display)

    def clauses(self, resource: Resource) -> list[Clause]:
        """Return the clauses that restrict records, in addition to the scope."""
        clauses: list[Clause] = [*self.call.visibility.clauses(resource)]
        if resource is LISTING and self._on_market:
            clauses.append(terms("status", ON_MARKET_STATUSES))
        if _has_deactivation(resource) and not self._with_deactivated:
            clauses.append(lacks_field("deactivated"))
        return clauses

    def required_fields(self, resource: Resource) -> set[str]:
        """Return the search fields that `removal_reason`, the content hash and the changes are read from."""
        changed = {"changed"} if self._changed else set[str]()
        return {*used_fields(self.clauses(resource)), *self.content(resource).names, *changed}

    def removal_reason(self, resource: Resource, hit: Hit) -> str | None:
        """Return why a document's record is not in the copy, None if it is."""
        header, record = hit
        if header.deleted:
            return "out_of_scope" if header.reason == TombstoneReason.MOVED else "deleted"
        # By the record, so that an index without the search field shows nothing either; first, as the rest is hidden.
        if self.call.visibility.display and resource.address and record is not None and refuses(record, LISTING_SWITCH):
            return "withheld"
        if resource is LISTING and self._on_market and header.status not in _ON_MARKET:
            return "off_market"
        if header.deactivated is not None and not self._with_deactivated:
            return "deactivated"
        return None

    def difference(self, resource: Resource, shown: dict[int, ChangeGroup], hit: Hit, base: int) -> Difference:
        """Return what a record has that is new to a reader who had everything at a sequence; `shown` are its `groups`.

        With a display licence, a record is new, too, when a seller has opted in or out since.
        """
        sequences = dict(map(split_change, hit.header.changed))
        is_new, was_switched = sequences.get(CREATION, _UNKNOWN) > base, False
        record = hit.record if self.call.visibility.display and resource.address else None
        if is_new and record is None:
            return Difference({}, is_new, shows_first=bool(sequences))
        groups = {number: group for number, group in shown.items() if sequences.get(number, 0) > base}
        if record is not None:
            was_switched = was_withheld(hit.header.changed)
            is_new |= any(group.name == "display" for group in groups.values())
            groups = {} if refuses(record, LISTING_SWITCH) else groups
            if refuses(record, ADDRESS_SWITCH):
                groups = {number: group for number, group in groups.items() if group.name != "address"}
        return Difference({} if is_new else groups, is_new, shows_first=bool(sequences) and not was_switched)

    def is_told(self, difference: Difference) -> bool:
        """Whether a reader learns of a document: not if all that changed is what its key may not see."""
        if difference.is_new or difference.groups:
            return True
        return not (self.call.visibility.withheld or self.call.visibility.display)

    def is_move_within_scope(self, header: DocumentHeader) -> bool:
        """Whether a record moved between companies of the scope: its new document is the change to report."""
        return header.moved_to is not None and self.call.scope.covers(header.moved_to)


def header_identifier(header: DocumentHeader) -> str:
    return split_document_id(header.id)[1]


def _has_deactivation(resource: Resource) -> bool:
    return any(field.name == "deactivated" for field in resource.search_fields)


async def published_mark(call: RequestContext, resource: Resource) -> Mark | None:
    """Return the mark of a resource, None before its first build; raise ApiError.

    That is the case if the mark cannot be renewed, its index is unusable, or not the one that its mark describes.
    """
    engine, index = call.services.engine, call.services.indices[resource]
    engine.require_available(index.alias)
    mark = await index.mark.get_renewed()
    if mark is not None:
        engine.require_continued(index.alias)
    return mark


async def mark_of_copy(call: RequestContext, resource: Resource) -> Mark | None:
    """Return the mark that a copy begins with, None if the resource was never loaded; raise ApiError.

    A resource that was loaded is not copied without its mark.
    """
    mark = await published_mark(call, resource)
    if mark is None:
        index = call.services.indices[resource]
        mark = await index.mark.refreshed()
        if mark is None and index.alias not in call.services.engine.live.never_loaded:
            raise DataReplaced
    return mark
