"""From a checked envelope to the parts of a stored document: search fields, content hash, version, record bytes."""

from __future__ import annotations

import datetime as dt
from functools import partial
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from indexer.envelope import microseconds, milliseconds
from mappings.document import MARK, document, feed_key
from mappings.search import Origin, SearchField

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.source import Line
    from mappings import Resource

    Extract = Callable[[Any], object]

_encode = msgspec.json.Encoder().encode
_PLACEHOLDER = msgspec.Raw(MARK)
_EMPTY: tuple[object, ...] = (None, "", [], {})
_UNIX_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_DAY_MILLISECONDS = 86_400_000
_DELETION = 1023


class Draft(msgspec.Struct, gc=False):
    """One document but for its stamp. `record` is None for a tombstone."""

    line: Line
    id: str
    company: str
    stamped_at: int  # the source's `updated_at`, milliseconds since 1970
    version: int
    content: int
    search: dict[str, object]
    record: bytes | None

    def source(self, clock: int, sequence: int) -> bytes:
        """Return the source bytes of the document under the stamp of the indexer."""
        fields = {
            "id": self.id,
            "feed_key": feed_key(self.company, self.id),
            "company": self.company,
            "clock": clock,
            "sequence": sequence,
            "version": self.version,
            "content": self.content,
            "deleted": self.record is None,
            **self.search,
        }
        return _encode(fields) if self.record is None else document(fields, self.record)


class Drafter:
    """Makes the drafts of one resource; everything that follows from the declaration is worked out once."""

    def __init__(self, resource: Resource) -> None:
        """Compile the extraction of search fields and the split at the volatile members."""
        self._identifier = resource.identifier
        self._fields = tuple((field.name, _extraction(field)) for field in resource.filters)
        # The partner data has a clock of its own, so its time is no content.
        self._extra = tuple(sorted(resource.envelope - {"shared_partner_data_updated_at"}))
        self._volatile = tuple(field.name for field in resource.stored if field.name in resource.volatile)

    def __call__(self, line: Line, envelope: Any, company: str) -> Draft:
        """Return the draft of a checked envelope, which is used up by it."""
        stamp = microseconds(envelope)
        identifier = getattr(envelope.record, self._identifier)
        if envelope.deleted:
            content = _hash(_encode([company, "deleted"]))
            return Draft(line, identifier, company, stamp // 1000, stamp * 1024 + _DELETION, content, {}, None)
        search = {name: value for name, extract in self._fields if (value := extract(envelope)) is not None}
        extra = _encode([company, *(getattr(envelope, name) for name in self._extra)])
        record, content = self._rendered(envelope.record, extra)
        version = stamp * 1024 + content % _DELETION
        return Draft(line, identifier, company, stamp // 1000, version, content, search, record)

    def _rendered(self, record: Any, extra: bytes) -> tuple[bytes, int]:
        """Return the encoded record, and the hash of `extra` and all of the record that is not volatile.

        The record is encoded once: a raw TAB, which JSON never holds, keeps the place of each volatile value.
        """
        values = []
        for name in self._volatile:
            values.append(_encode(getattr(record, name)))
            setattr(record, name, _PLACEHOLDER)
        template = _encode(record)
        pieces = template.split(MARK)
        filled = [part for pair in zip(pieces, values, strict=False) for part in pair]
        return b"".join([*filled, pieces[-1]]), _hash(extra, template)


def _hash(*parts: bytes) -> int:
    """Return a signed 64-bit digest, what a `long` field holds."""
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "big", signed=True)


def _extraction(field: SearchField) -> Extract:
    """Return the function from an envelope to a search field's value; None stands for no value."""
    prefix = "record." if field.origin is Origin.RECORD else ""
    read = [attrgetter(prefix + source) for source in field.sources]
    if field.is_presence:
        return partial(_presence, read[0])
    if field.is_day or field.is_moment:
        return partial(_moment, read[0])
    return partial(_value, read[0]) if len(read) == 1 else partial(_values, tuple(read))


def _presence(read: Extract, envelope: Any) -> bool:
    return read(envelope) not in _EMPTY


def _moment(read: Extract, envelope: Any) -> int | None:
    value = read(envelope)
    if isinstance(value, dt.datetime):
        return milliseconds(value)
    if isinstance(value, dt.date):
        return (value.toordinal() - _UNIX_EPOCH_ORDINAL) * _DAY_MILLISECONDS
    return None


def _value(read: Extract, envelope: Any) -> object:
    value = read(envelope)
    if isinstance(value, dt.datetime):
        return msgspec.to_builtins(value)
    return value if value != [] else None


def _values(read: tuple[Extract, ...], envelope: Any) -> list[object] | None:
    values = [value for one in read if (value := one(envelope)) is not None]
    return values or None
