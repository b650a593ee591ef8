"""Building stored documents from checked envelopes: search fields, content hash, version, record bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from indexer.clock import VERSIONS_PER_MICROSECOND, version_microseconds
from indexer.documents.content_hashes import OpenRecord, content_hash, restricted_hashes
from indexer.documents.envelope import updated_at_microseconds
from indexer.documents.record_normalizer import ExactValues, member_getter
from indexer.documents.search_values import SearchValues
from indexer.errors import InvalidRecordError
from indexer.source.lines import RejectedLine, SourceLine
from mappings import Resource
from mappings.digest import bucket, record_hash, split_hash
from mappings.display import ADDRESS_SWITCH, refuses
from mappings.stored_document import EXACT, RECORD_DELIMITER, TombstoneReason, encode_document, feed_key, move_id

# The line of a document that does not come from a source line.
NO_LINE = SourceLine("", 0, b"")

_encoder = msgspec.json.Encoder()
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines
_PLACEHOLDER = msgspec.Raw(RECORD_DELIMITER)
# The lowest ten bits of a version. With equal times a deletion outranks a record; a record outranks the tombstone that
# it left when a full source lacked it, whatever the bits (`indexer.changes.change_kind`).
_TOMBSTONE_VERSION_BITS = {TombstoneReason.VANISHED: 1022, TombstoneReason.DELETED: 1023}
_RECORD_VERSION_BITS = 1022
# Stored, but not part of the content: the time of the partner data, which changes independently, and the parent of a
# company, which no record shows.
_NOT_CONTENT = frozenset({"shared_partner_data_updated_at", "parent_company_id"})
_NOT_DELETED = (False, None, None)  # `deleted`, `reason` and `moved_to` of a live record


class PendingDocument(msgspec.Struct, gc=False):
    """A document without its stamp; `mappings.stored_document.encode_document` joins `head`, stamp and `record`."""

    line: SourceLine
    id: str
    company: str
    updated_milliseconds: int  # the source's `updated_at`, milliseconds since 1970
    version: int
    content: int
    head: bytes
    record: bytes | None
    # For a line without a time of its own: the same document with another time, in microseconds since 1970.
    redated: Callable[[int], PendingDocument] | None = None

    @property
    def is_tombstone(self) -> bool:
        """Whether the record is deleted, so that the document only keeps its version."""
        return self.record is None

    def stamped_source(self, clock: int, sequence: int) -> bytes:
        """Return the `_source` bytes of the document with a stamp."""
        return encode_document(self.head, clock, sequence, self.record)


def rejected_document(document: PendingDocument, reason: str, field: str = "") -> RejectedLine:
    """Return the line of a document that was refused, with the reason."""
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
    reason: TombstoneReason | None = None
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


class DocumentBuilder:
    """Builds the documents of one resource."""

    def __init__(self, resource: Resource) -> None:
        """Compile everything that follows from the declaration of the resource."""
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
        self._extra = member_getter(sorted(resource.envelope_members - _NOT_CONTENT))
        self._not_content = member_getter(sorted(resource.envelope_members & _NOT_CONTENT))
        self._volatile = resource.volatile
        self._open_values = member_getter(self._restricted.open_members)

    def __call__(self, line: SourceLine, envelope: Any, company: str, exact: ExactValues) -> PendingDocument:
        """Return the document of a checked envelope, and consume the envelope.

        `exact` is what the numbers were that are rounded in the record. It counts for the version, not as content.
        """
        updated = updated_at_microseconds(envelope)
        identifier = getattr(envelope.record, self._identifier)
        if envelope.deleted:
            return tombstone_document(identifier, company, updated, TombstoneReason.DELETED, line)
        own = tuple(self._search_values(envelope, exact))
        kept = (exact,) if exact and self._keeps_exact else ()
        context = ([company, *self._extra(envelope)], (*self._not_content(envelope), *kept))
        opened, record, content, stored = self._encode_record(envelope.record, context)
        version = updated * VERSIONS_PER_MICROSECOND + stored % _RECORD_VERSION_BITS
        key, proof = feed_key(company, identifier), split_hash(record_hash(identifier, content))
        own = (*own, *self._restricted.values(identifier, company, opened))
        if self._keeps_exact:
            own = (*own, exact or None)
        if self._hides_address(record):
            own = (*own, *self._restricted.address_values(identifier, company, record))
        fields = self._head(identifier, key, company, version, content, bucket(identifier), *_NOT_DELETED, *proof, *own)
        head = _encode(fields)[:-1]
        return PendingDocument(line, identifier, company, updated // 1000, version, content, head, record)

    def _hides_address(self, record: bytes) -> bool:
        return bool(self._restricted.address_field_names) and refuses(record, ADDRESS_SWITCH)

    def _encode_record(self, record: Any, context: tuple[object, object]) -> tuple[OpenRecord, bytes, int, int]:
        """Return the record, encoded in parts and as a whole, and the hashes of its content and of all that is stored.

        `context` is what is stored next to the record: the part that counts as content, then the rest.
        """
        names = self._restricted.open_members
        # A list: `encode_lines` of msgspec 0.22 never frees the iterator of any other sequence.
        extra, other, *values, _ = _encode_lines([*context, *self._open_values(record)]).split(b"\n")
        for name in names:
            setattr(record, name, _PLACEHOLDER)
        opened = OpenRecord(names, values, _encode(record).split(RECORD_DELIMITER))
        encoded = opened.without(())
        content = content_hash(extra, opened.without(self._volatile))
        return opened, encoded, content, content_hash(extra + other, encoded)
