"""From a checked envelope to the parts of a stored document: search fields, content hash, version, record bytes."""

from __future__ import annotations

import datetime as dt
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from xxhash import xxh3_64_intdigest

from indexer.envelope import microseconds, milliseconds
from indexer.records import members
from indexer.source import Line
from mappings.digest import bucket, halves, record_hash
from mappings.document import MARK, Reason, departure_id, document, feed_key
from mappings.search import Origin, SearchField

if TYPE_CHECKING:
    from collections.abc import Callable

    from mappings import Resource

    Extract = Callable[[Any], object]

# The line of a draft that no line of the source asked for.
NOWHERE = Line("", 0, b"")

_encoder = msgspec.json.Encoder()
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines
_PLACEHOLDER = msgspec.Raw(MARK)
_EMPTY: tuple[object, ...] = (None, "", [], {})
_UNIX_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_DAY_MILLISECONDS = 86_400_000
# The last ten bits of a version, of one moment: over any record what a full source lacks, over that what is deleted.
_LAST = {Reason.VANISHED: 1022, Reason.DELETED: 1023}
_RECORDS = 1022
_PARTNER_TIME = frozenset({"shared_partner_data_updated_at"})
_LIVES = (False, None, None)  # the search fields `deleted`, `reason` and `moved_to` of what is no tombstone


class Draft(msgspec.Struct, gc=False):
    """One document but for its stamp: `head` and `record` as `mappings.document.document` joins them."""

    line: Line
    id: str
    company: str
    stamped_at: int  # the source's `updated_at`, milliseconds since 1970
    version: int
    content: int
    head: bytes
    record: bytes | None

    @property
    def is_tombstone(self) -> bool:
        """Whether the document only keeps the version of a record that is gone."""
        return self.record is None

    def source(self, clock: int, sequence: int) -> bytes:
        """Return the source bytes of the document under the stamp of the indexer."""
        return document(self.head, clock, sequence, self.record)


class _Head(msgspec.Struct, omit_defaults=True, gc=False):
    """The search fields of a tombstone, without the stamp; a resource's own follow for a record that lives."""

    id: str
    feed_key: str
    company: str
    version: int
    content: int
    bucket: int
    deleted: bool
    reason: Reason | None = None
    moved_to: str | None = None
    proof_high: int | None = None
    proof_low: int | None = None


def tombstone(identifier: str, company: str, moment: int, reason: Reason, line: Line = NOWHERE) -> Draft:
    """Return the draft that takes a record away; `moment` is in microseconds since 1970 and below 2**53."""
    version, content = moment * 1024 + _LAST[reason], _hash(_encode([company, reason]), b"")
    key = feed_key(company, identifier)
    fields = _Head(identifier, key, company, version, content, bucket(identifier), deleted=True, reason=reason)
    return Draft(line, identifier, company, moment // 1000, version, content, _encode(fields)[:-1], None)


def departure(identifier: str, company: str, moved_to: str, reason: Reason, state: tuple[int, int]) -> Draft:
    """Return the tombstone of its own that tells readers of a company alone that a record has gone to another.

    `state` is version and content of the record as it is there now: departures are ordered as what has caused them.
    """
    name, at = departure_id(company, identifier), bucket(identifier)
    key = feed_key(company, name)
    fields = _Head(name, key, company, *state, at, deleted=True, reason=reason, moved_to=moved_to)
    return Draft(NOWHERE, name, company, (state[0] >> 10) // 1000, *state, _encode(fields)[:-1], None)


class Drafter:
    """Makes the drafts of one resource; everything that follows from the declaration is worked out once."""

    def __init__(self, resource: Resource) -> None:
        """Compile the extraction of search fields and the split at the volatile members."""
        self._identifier = resource.identifier
        plain = [field for field in resource.filters if _is_plain(field)]
        derived = [field for field in resource.filters if not _is_plain(field)]
        self._plain = members([path for field in plain for path in _paths(field)])
        self._derived = [_derivation(field) for field in derived]
        own = [(field.name, Any, None) for field in (*plain, *derived)]
        self._head: Any = msgspec.defstruct(f"{resource.name}Head", own, bases=(_Head,), omit_defaults=True, gc=False)
        # The partner data has a clock of its own, so its time is no content, but it is stored.
        self._extra = members(sorted(resource.envelope - _PARTNER_TIME))
        self._partner_time = members(sorted(resource.envelope & _PARTNER_TIME))
        self._volatile = tuple(field.name for field in resource.stored if field.name in resource.volatile)
        self._volatile_values = members(self._volatile)

    def __call__(self, line: Line, envelope: Any, company: str) -> Draft:
        """Return the draft of a checked envelope, which is used up by it."""
        stamp = microseconds(envelope)
        identifier = getattr(envelope.record, self._identifier)
        if envelope.deleted:
            return tombstone(identifier, company, stamp, Reason.DELETED, line)
        own = (*self._plain(envelope), *[derive(envelope) for derive in self._derived])
        about = ([company, *self._extra(envelope)], self._partner_time(envelope))
        record, content, everything = self._rendered(envelope.record, about)
        version = stamp * 1024 + everything % _RECORDS
        key, proof = feed_key(company, identifier), halves(record_hash(identifier, content))
        fields = self._head(identifier, key, company, version, content, bucket(identifier), *_LIVES, *proof, *own)
        head = _encode(fields)[:-1]
        return Draft(line, identifier, company, stamp // 1000, version, content, head, record)

    def _rendered(self, record: Any, about: tuple[object, object]) -> tuple[bytes, int, int]:
        """Return the encoded record, the hash of its content, and the hash of everything that is stored.

        `about` is what is stored beside the record: what is content of it, then what is not. The record is encoded
        once: a raw TAB, which JSON never holds, keeps the place of each volatile value.
        """
        extra, beside, *values, _ = _encode_lines((*about, *self._volatile_values(record))).split(b"\n")
        for name in self._volatile:
            setattr(record, name, _PLACEHOLDER)
        rendered = _encode(record)
        content = _hash(extra, rendered)
        for value in values:
            rendered = rendered.replace(MARK, value, 1)
        return rendered, content, _hash(extra + beside, rendered)


def _hash(about: bytes, record: bytes) -> int:
    """Return a signed 64-bit digest, what a `long` field holds."""
    digest: int = xxh3_64_intdigest(record, xxh3_64_intdigest(about))
    return digest - 2**64 if digest >= 2**63 else digest


def _paths(field: SearchField) -> list[str]:
    prefix = "record." if field.origin is Origin.RECORD else ""
    return [prefix + source for source in field.sources]


def _is_plain(field: SearchField) -> bool:
    """Whether the field's value is its source's as it is; null stands for no value."""
    return len(field.sources) == 1 and not (field.is_presence or field.is_day or field.is_moment)


def _derivation(field: SearchField) -> Extract:
    """Return the function from an envelope to the value of a field that is not plain; None stands for no value."""
    read = attrgetter(*_paths(field))
    if field.is_presence:
        return partial(_presence, read)
    return partial(_moment, read) if field.is_day or field.is_moment else partial(_values, read)


def _presence(read: Extract, envelope: Any) -> bool:
    return read(envelope) not in _EMPTY


def _moment(read: Extract, envelope: Any) -> int | None:
    value = read(envelope)
    if isinstance(value, dt.datetime):
        return milliseconds(value)
    if isinstance(value, dt.date):
        return (value.toordinal() - _UNIX_EPOCH_ORDINAL) * _DAY_MILLISECONDS
    return None


def _values(read: Callable[[Any], tuple[object, ...]], envelope: Any) -> list[object] | None:
    return [value for value in read(envelope) if value is not None] or None
