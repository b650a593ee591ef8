"""Stored documents, built from checked envelopes: search fields, content hashes, version, record bytes.

A record is encoded once, with a raw TAB, which JSON never contains, in the place of each value that some hash omits:
the hash of the whole content, and those for keys that may not see some of it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import msgspec
from xxhash import xxh3_64_intdigest

from indexer.clock import VERSIONS_PER_MICROSECOND, epoch_milliseconds, epoch_time, version_microseconds
from indexer.documents.envelope import updated_at_microseconds
from indexer.documents.normalizer import ExactValues, Gap, member_getter
from indexer.errors import InvalidRecordError
from indexer.source.lines import RejectedLine, SourceLine
from mappings import Resource
from mappings.fields import FieldKind, number_in, text_in
from mappings.listing import HISTORY, TIME_ZONE
from mappings.open_houses import Token, identity, numbered
from mappings.record_schema import record_type
from mappings.search_fields import Conversion, FieldOrigin, SearchField
from mappings.stored_document import (
    CREATED,
    EXACT,
    RECORD_DELIMITER,
    TombstoneReason,
    add_search_fields,
    bucket,
    encode_document,
    exact_values,
    feed_key,
    move_id,
    record_hash,
    split_hash,
    split_record,
)
from mappings.visibility import ADDRESS_SWITCH, OPT_OUTS, ShownContent, refuses

# The line of a document that does not come from a source line.
NO_LINE = SourceLine("", 0, b"")

_encoder = msgspec.json.Encoder()
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines
_PLACEHOLDER = msgspec.Raw(RECORD_DELIMITER)
# The lowest ten bits of a version. With equal times a deletion outranks a record; a record outranks the tombstone that
# it left when a full source lacked it, whatever the bits (`indexer.changes.stamps`).
_TOMBSTONE_VERSION_BITS: dict[str | None, int] = {
    TombstoneReason.VANISHED: 1022,
    TombstoneReason.DELETED: 1023,
    TombstoneReason.UNREADABLE: 1023,
}
_RECORD_VERSION_BITS = 1022
# Stored, but not part of the content: the time of the partner data, which changes independently, and the parent of a
# company, which no record shows.
_NOT_CONTENT = frozenset({"shared_partner_data_updated_at", "parent_company_id"})


class PendingDocument(msgspec.Struct, gc=False):
    """A document without its stamp; `mappings.stored_document.encode_document` joins `head`, stamp and `record`.

    `past` and `changed` are those of a new record until it is compared with the live one
    (`indexer.changes.stamps.compared`). `reason` is the search field of this name of a live record. `gaps` are what its
    source lacks and others may have; `named` returns the same document with some of it.
    """

    line: SourceLine
    id: str
    company: str
    updated_milliseconds: int  # the source's `updated_at`, milliseconds since 1970
    version: int
    content: int
    head: bytes
    record: bytes | None
    reason: str | None = None
    zoneless: int = 0  # open houses of no known time zone
    gaps: tuple[Gap, ...] = ()
    named: Callable[[dict[str, str]], PendingDocument] | None = None
    # For a line whose time the source leaves open: the same document with another one, in microseconds since 1970.
    redated: Callable[[int], PendingDocument] | None = None
    past: str = ""
    changed: Sequence[int] = CREATED

    @property
    def is_tombstone(self) -> bool:
        """Whether the record is deleted, so that the document only keeps its version."""
        return self.record is None

    def stamped_source(self, clock: int, sequence: int) -> bytes:
        """Return the `_source` bytes of the document with a stamp."""
        return encode_document(self.head, clock, sequence, self.record, changed=self.changed, past=self.past)


def rejected_document(document: PendingDocument, reason: str, field: str = "") -> RejectedLine:
    return RejectedLine(document.line, InvalidRecordError(field, reason), None, frozenset({document.id}))


class _SearchFields(msgspec.Struct, omit_defaults=True, gc=False):
    """The search fields of a tombstone without its stamp. A live record adds those of its resource."""

    id: str
    feed_key: str
    company: str
    version: int
    content: int
    bucket: int
    deleted: bool
    reason: str | None = None
    moved_to: str | None = None
    proof_high: int | None = None
    proof_low: int | None = None


def tombstone_document(
    identifier: str, company: str, microseconds: int, reason: TombstoneReason, line: SourceLine = NO_LINE
) -> PendingDocument:
    """Return the tombstone of a record, deleted at a time in microseconds since 1970 below 2**53."""
    version = microseconds * VERSIONS_PER_MICROSECOND + _TOMBSTONE_VERSION_BITS[reason]
    content = content_hash(_encode([company, reason]), b"")
    key = feed_key(company, identifier)
    fields = _SearchFields(identifier, key, company, version, content, bucket(identifier), deleted=True, reason=reason)
    head = _encode(fields)[:-1]
    return PendingDocument(line, identifier, company, microseconds // 1000, version, content, head, None)


def move_document(
    identifier: str, company: str, moved_to: str, reason: TombstoneReason, state: tuple[int, int]
) -> PendingDocument:
    """Return the tombstone that reports to readers of `company` only that a record has moved to another company.

    `state` is the version and content of the record in its new company, so that moves are ordered like their causes.
    """
    tombstone_id = move_id(company, identifier)
    key, at = feed_key(company, tombstone_id), bucket(identifier)
    fields = _SearchFields(tombstone_id, key, company, *state, at, deleted=True, reason=reason, moved_to=moved_to)
    milliseconds = version_microseconds(state[0]) // 1000
    return PendingDocument(NO_LINE, tombstone_id, company, milliseconds, *state, _encode(fields)[:-1], None)


class Marked(NamedTuple):
    """The mark of a live record that is not as its source has it, and its version if that does not follow from it.

    A record that is withdrawn outranks all states of its moment. With names that the source lacks, the version is that
    of the record without them.
    """

    reason: str | None = None
    version: int | None = None


AS_GIVEN = Marked()


class DocumentBuilder:
    def __init__(self, resource: Resource) -> None:
        self._identifier = resource.identifier
        self._search_values = SearchValues(resource, resource.search_fields)
        self._restricted = restricted_hashes(resource)
        self._keeps_exact = bool(resource.exact_names)
        own_names = [*self._search_values.names, *self._restricted.field_names]
        own_names += [EXACT] if self._keeps_exact else []
        own_names += self._restricted.address_field_names
        own = [(name, Any, None) for name in own_names]
        self._head: Any = msgspec.defstruct(
            f"{resource.name}Head", own, bases=(_SearchFields,), omit_defaults=True, gc=False
        )
        members = resource.envelope_members
        self._has_zone, self._has_history = TIME_ZONE in members, HISTORY in members
        self._volatile = resource.volatile
        self._extra = member_getter(sorted(members - _NOT_CONTENT - {TIME_ZONE, HISTORY}))
        self._not_content = member_getter(sorted(members & _NOT_CONTENT))
        self._open_values = member_getter(self._restricted.open_members)

    def __call__(
        self,
        line: SourceLine,
        envelope: Any,
        company: str,
        exact: ExactValues,
        marked: Marked = AS_GIVEN,
    ) -> PendingDocument:
        """Return the document of a checked envelope, and consume the envelope.

        `exact` is what the numbers were that are rounded in the record. It counts for the version, not as content.
        """
        updated = updated_at_microseconds(envelope)
        identifier = getattr(envelope.record, self._identifier)
        if envelope.deleted:
            return tombstone_document(identifier, company, updated, TombstoneReason.DELETED, line)
        own = tuple(self._search_values(envelope, exact))
        kept = (exact,) if exact and self._keeps_exact else ()
        extra, zoneless = [company, *self._extra(envelope)], 0
        if self._has_zone:
            zone, houses = envelope.property_time_zone, envelope.record.OpenHouse
            if zone is None:
                zoneless = len(houses or ())
            elif houses:
                extra.append(zone)  # content: it says when they are
            else:
                kept = (*kept, zone)
        if self._has_history and envelope.history:
            kept = (*kept, envelope.history)
        context = (extra, (*self._not_content(envelope), *kept))
        opened, record, content, stored = self._encode_record(envelope.record, context)
        reason, version = marked
        if version is None:
            bits = _TOMBSTONE_VERSION_BITS.get(reason, stored % _RECORD_VERSION_BITS)
            version = updated * VERSIONS_PER_MICROSECOND + bits
        key, proof = feed_key(company, identifier), split_hash(record_hash(identifier, content))
        own = (*own, *self._restricted.values(identifier, company, opened))
        if self._keeps_exact:
            own = (*own, exact or None)
        if self._restricted.address_field_names and refuses(record, ADDRESS_SWITCH):
            own = (*own, *self._restricted.address_values(identifier, company, record))
        state = (False, reason, None)  # `deleted`, `reason` and `moved_to`
        fields = self._head(identifier, key, company, version, content, bucket(identifier), *state, *proof, *own)
        head = _encode(fields)[:-1]
        milliseconds = updated // 1000
        return PendingDocument(
            line, identifier, company, milliseconds, version, content, head, record, reason, zoneless
        )

    def _encode_record(self, record: Any, context: tuple[object, object]) -> tuple[OpenRecord, bytes, int, int]:
        """Return the record, encoded in parts and as a whole, and the hashes of its content and of all that is stored.

        `context` is what is stored next to the record: the part that counts as content, then the rest.
        """
        names = self._restricted.open_members
        # A list: `encode_lines` of msgspec 0.22 never frees the iterator of any other sequence.
        extra, other, *values, _ = _encode_lines([*context, *self._open_values(record)]).split(b"\n")
        for name in names:
            setattr(record, name, _PLACEHOLDER)
        opened = OpenRecord.of(names, values, _encode(record))
        encoded = b"".join(opened.pieces)
        content = content_hash(extra, opened.without(self._volatile))
        return opened, encoded, content, content_hash(extra + other, encoded)


@cache
def document_builder(resource: Resource) -> DocumentBuilder:
    return DocumentBuilder(resource)


@cache
def _record_decoder(resource: Resource) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(record_type(resource)).decode


def stored_envelope(resource: Resource, source: bytes, version: int) -> tuple[Any, ExactValues]:
    """Return the envelope of a stored live record, whose version is given, and what its rounded numbers were."""
    head, body = split_record(source)
    stored, members = msgspec.json.decode(head + b"}"), dict.fromkeys(resource.envelope_members)
    for declared in resource.search_fields:
        value = stored.get(declared.name)
        if declared.origin is FieldOrigin.ENVELOPE and value is not None:
            is_time = declared.conversion is Conversion.TIMESTAMP
            members[declared.sources[0]] = epoch_time(value * 1000) if is_time else value
    updated_at, record = epoch_time(version_microseconds(max(version, 0))), _record_decoder(resource)(body)
    envelope = SimpleNamespace(record=record, deleted=False, updated_at=updated_at, **members)
    return envelope, stored.get(EXACT) or {}


_EMPTY: tuple[object, ...] = (None, "", [], {})
_UNIX_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_DAY_MILLISECONDS = 86_400_000
_NUMBERS = frozenset({FieldKind.INTEGER, FieldKind.NUMBER})
# The conversions whose fields documents of 1.0.0 lack, and those that were added later.
_ADDED = (
    frozenset({Conversion.EXACT, Conversion.FEATURE, Conversion.COUNT}),
    frozenset({Conversion.TEXT, Conversion.OPEN_HOUSES}),
)


class SearchValues:
    def __init__(self, resource: Resource, fields: Iterable[SearchField]) -> None:
        declared = [field for field in fields if field.conversion is not Conversion.FEATURE]
        numbers = {member.name for member in resource.stored if member.kind in _NUMBERS}
        strings = {member.name for member in resource.stored if member.kind is FieldKind.STRING}
        is_plain = {Conversion.EXACT: numbers, Conversion.TEXT: strings}
        plain = [field for field in declared if _is_plain(field, is_plain)]
        converted = [field for field in declared if field.conversion in _CONVERSIONS and field not in plain]
        several = [field for field in declared if len(field.sources) > 1]
        tokens = [field for field in declared if field.conversion is Conversion.OPEN_HOUSES]
        featured = [field for field in fields if field.conversion is Conversion.FEATURE]
        paths = [[path for field in group for path in _paths(field)] for group in (plain, converted)]
        self._plain, self._read = map(member_getter, paths)
        self._convert = [_CONVERSIONS[field.conversion] for field in converted]
        self._several = [attrgetter(*_paths(field)) for field in several]
        self._has_tokens = bool(tokens)
        self._features = {field.feature: at for at, field in enumerate(featured)}
        self.names = tuple(field.name for field in (*plain, *converted, *several, *tokens, *featured))
        self._exact_at = [
            (field.sources[0], at)
            for at, field in enumerate((*plain, *converted))
            if field.conversion is Conversion.EXACT
        ]

    def __call__(self, envelope: Any, exact: ExactValues) -> list[object]:
        """Return the values in the order of `names`, None for none; `exact` is what numbers were that are rounded."""
        values = zip(self._convert, self._read(envelope), strict=True)
        own: list[object] = [*self._plain(envelope), *[convert(value) for convert, value in values]]
        own += [[value for value in read(envelope) if value is not None] or None for read in self._several]
        if self._has_tokens:
            houses = envelope.record.OpenHouse
            own.append(_open_house_tokens(houses, envelope.property_time_zone) if houses else None)
        if exact:
            for name, at in self._exact_at:
                own[at] = exact.get(name, own[at])
        return own + self._feature_values(envelope.record) if self._features else own

    def _feature_values(self, record: Any) -> list[object]:
        found: list[Any] = [None] * len(self._features)
        for item in record.PropertyFeatures or ():
            at = self._features.get(item.PropertyFeatureName)
            if at is not None and (values := item.PropertyFeatureValues):
                found[at] = [*(found[at] or ()), *values]
        return found


class MissingValues:
    """Adds the search fields that documents of earlier versions lack, when they are copied."""

    def __init__(self, resource: Resource) -> None:
        fields = [field for field in resource.search_fields if field.origin is FieldOrigin.RECORD]
        groups = ([field.name for field in fields if field.conversion in group] for group in _ADDED)
        self._added = [re.compile(rb',"(?:%b)":' % "|".join(names).encode()) for names in groups if names]
        self._values = SearchValues(resource, fields)
        self._decode = msgspec.json.Decoder(record_type(resource)).decode

    def complete(self, source: bytes) -> bytes:
        """Return a stored document, with its search fields if it has none of those that were added at one time."""
        head, record = split_record(source)
        if not record or all(added.search(head) for added in self._added):
            return source
        return add_search_fields(source, b"".join(self._encoded(head, record)))

    def _encoded(self, head: bytes, record: bytes) -> Iterator[bytes]:
        exact = msgspec.json.decode(exact_values(head) or b"{}")
        stored = {TIME_ZONE: msgspec.json.decode(head + b"}").get(TIME_ZONE)}
        values = self._values(SimpleNamespace(record=self._decode(record), **stored), exact)
        for name, value in zip(self._values.names, values, strict=True):
            if value is not None and not _has(head, name):
                yield b',"%b":%b' % (name.encode(), msgspec.json.encode(value))


@cache
def missing_values(resource: Resource) -> MissingValues:
    return MissingValues(resource)


def _paths(field: SearchField) -> list[str]:
    prefix = "record." if field.origin is FieldOrigin.RECORD else ""
    return [prefix + source for source in field.sources]


def _is_plain(field: SearchField, converted: Mapping[Conversion, set[str]]) -> bool:
    """Whether the field's value is that of its only source, if that needs no conversion; null means no value."""
    if field.conversion in converted:
        return field.sources[0] in converted[field.conversion]
    return len(field.sources) == 1 and field.conversion is Conversion.VERBATIM


def _presence(value: object) -> bool:
    return value not in _EMPTY


def _refusal(value: object) -> bool | None:
    return True if value is False else None


def _day(value: object) -> int | None:
    return (value.toordinal() - _UNIX_EPOCH_ORDINAL) * _DAY_MILLISECONDS if isinstance(value, dt.date) else None


def _timestamp(value: object) -> int | None:
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if isinstance(value, dt.datetime):
        return epoch_milliseconds(value)
    return value * 1000 if isinstance(value, int) else None


def _count(value: object) -> int | None:
    return len(value) or None if isinstance(value, list) else None


# Of fields of one source.
_CONVERSIONS: dict[Conversion, Callable[[object], object]] = {
    Conversion.PRESENCE: _presence,
    Conversion.REFUSAL: _refusal,
    Conversion.DAY: _day,
    Conversion.TIMESTAMP: _timestamp,
    Conversion.EXACT: number_in,
    Conversion.COUNT: _count,
    Conversion.TEXT: text_in,
}


def _open_house_tokens(houses: Any, zone: str | None) -> list[str]:
    times = [(house.Date, house.StartTime, house.EndTime) for house in houses]
    suffixes = numbered(identity(day, start) for day, start, _ in times)
    return [Token.of(suffix, *when, zone).text for suffix, when in zip(suffixes, times, strict=True)]


def content_hash(context: bytes, record: bytes) -> int:
    """Return a signed 64-bit digest, the range of a `long` field."""
    digest: int = xxh3_64_intdigest(record, xxh3_64_intdigest(context))
    return digest - 2**64 if digest >= 2**63 else digest


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """An encoded record, split at some of its members: their names; in turn the bytes between them and their values."""

    names: tuple[str, ...]
    pieces: list[bytes]

    @classmethod
    def of(cls, names: tuple[str, ...], values: Sequence[bytes], record: bytes) -> Self:
        """Return a record that is encoded with placeholders for these members, whose encoded values are given."""
        pieces = [b""] * (2 * len(names) + 1)
        pieces[::2], pieces[1::2] = record.split(RECORD_DELIMITER), values
        return cls(names, pieces)

    def without(self, omitted: frozenset[str]) -> bytes:
        """Return the encoded record with placeholders for some of these members."""
        pieces = self.pieces.copy()
        for at in _places(self.names, omitted):
            pieces[at] = RECORD_DELIMITER
        return b"".join(pieces)


@lru_cache(1024)
def _places(names: tuple[str, ...], omitted: frozenset[str]) -> tuple[int, ...]:
    return tuple(2 * at + 1 for at, name in enumerate(names) if name in omitted)


class RestrictedHashes:
    """Computes the hashes of one resource for keys without some field groups, and for those with a display licence.

    They cover what the feed shows of a record, and its company: nothing of the envelope. So those of a stored document
    can be computed, too.
    """

    def __init__(self, resource: Resource) -> None:
        self.open_members = tuple(
            field.name for field in resource.stored if field in resource.guarded or field.name in resource.volatile
        )
        self.field_names = _names(resource.restricted_contents)
        self.address_field_names = _names(resource.address_contents)
        self._omitted = [content.hidden | resource.volatile for content in resource.restricted_contents]
        self._omitted_with_address = [content.hidden | resource.volatile for content in resource.address_contents]
        self._address_members = frozenset(self.open_members) | resource.address
        self._switches = [(field.name, field.sources[0]) for field in OPT_OUTS] if resource.address_contents else []

    def values(self, identifier: str, company: str, record: OpenRecord) -> Iterator[int]:
        """Yield the values of the search fields `field_names`."""
        return _hashes(identifier, company, record, self._omitted)

    def address_values(self, identifier: str, company: str, record: bytes) -> Iterator[int]:
        """Yield the values of the search fields `address_field_names` of an encoded record whose address is hidden."""
        opened = _opened(msgspec.json.decode(record), self._address_members)
        return _hashes(identifier, company, opened, self._omitted_with_address)

    def complete(self, source: bytes) -> bytes:
        """Return a stored document with the fields that one of an earlier version lacks; tombstones have none."""
        head, record = split_record(source)
        missing = b"".join(self._missing(head, record)) if record else b""
        return add_search_fields(source, missing) if missing else source

    def _missing(self, head: bytes, record: bytes) -> Iterator[bytes]:
        if self.field_names and not _has(head, self.field_names[0]):
            opened = _opened(msgspec.json.decode(record), self.open_members)
            yield from _encoded(self.field_names, self.values(*_owner(head), opened))
        for name, switch in self._switches:
            if not _has(head, name) and refuses(record, switch):
                yield b',"%b":true' % name.encode()
                if switch == ADDRESS_SWITCH:
                    yield from _encoded(self.address_field_names, self.address_values(*_owner(head), record))


def _hashes(identifier: str, company: str, record: OpenRecord, omissions: Iterable[frozenset[str]]) -> Iterator[int]:
    context = _encoded_owner(company)
    for omitted in omissions:
        content = content_hash(context, record.without(omitted))
        yield content
        yield from split_hash(record_hash(identifier, content))


@lru_cache(1024)
def _encoded_owner(company: str) -> bytes:
    return _encode([company])


def _names(contents: Iterable[ShownContent]) -> tuple[str, ...]:
    return tuple(field.name for content in contents for field in content.search_fields)


def _has(head: bytes, name: str) -> bool:
    return b'"%b":' % name.encode() in head


def _encoded(names: Iterable[str], values: Iterable[int]) -> Iterator[bytes]:
    return (b',"%b":%d' % (name.encode(), value) for name, value in zip(names, values, strict=True))


def _owner(head: bytes) -> tuple[str, str]:
    stored = msgspec.json.decode(head + b"}", type=_DocumentOwner)
    return stored.id, stored.company


class _DocumentOwner(msgspec.Struct):
    id: str
    company: str


def _opened(record: dict[str, Any], members: Collection[str]) -> OpenRecord:
    """Split a stored record at those of the members that it has."""
    names = tuple(name for name in record if name in members)
    values = [_encode(record[name]) for name in names]
    return OpenRecord.of(names, values, _encode(record | dict.fromkeys(names, _PLACEHOLDER)))


@cache
def restricted_hashes(resource: Resource) -> RestrictedHashes:
    return RestrictedHashes(resource)
