"""The content hashes of a record: of the whole content, and those for keys without some field groups.

A record is encoded once, with a raw TAB, which JSON never contains, in the place of each value that some hash omits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from xxhash import xxh3_64_intdigest

from mappings.digest import record_hash, split_hash
from mappings.stored_document import RECORD_DELIMITER, add_search_fields, split_record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from mappings import Resource

_encode = msgspec.json.Encoder().encode
_PLACEHOLDER = msgspec.Raw(RECORD_DELIMITER)


def content_hash(context: bytes, record: bytes) -> int:
    """Return a signed 64-bit digest, the range of a `long` field."""
    digest: int = xxh3_64_intdigest(record, xxh3_64_intdigest(context))
    return digest - 2**64 if digest >= 2**63 else digest


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """An encoded record, split at some of its members: their names and encoded values, and the bytes around them."""

    names: Sequence[str]
    values: Sequence[bytes]
    parts: Sequence[bytes]

    def without(self, omitted: Collection[str]) -> bytes:
        """Return the encoded record with placeholders for some of these members."""
        pieces = [self.parts[0]]
        for name, value, part in zip(self.names, self.values, self.parts[1:], strict=True):
            pieces += (RECORD_DELIMITER if name in omitted else value, part)
        return b"".join(pieces)


class RestrictedHashes:
    """Computes the hashes of one resource that keys without some field groups are shown.

    They cover what the feed shows of a record, and its company: nothing of the envelope. So those of a stored document
    can be computed, too.
    """

    def __init__(self, resource: Resource) -> None:
        """Compile what follows from the declaration."""
        self.open_members = tuple(
            field.name for field in resource.stored if field in resource.guarded or field.name in resource.volatile
        )
        self.field_names = tuple(
            field.name for content in resource.restricted_contents for field in content.search_fields
        )
        self._omitted = [content.hidden | resource.volatile for content in resource.restricted_contents]

    def values(self, identifier: str, company: str, record: OpenRecord) -> Iterator[int]:
        """Yield the values of the search fields `field_names`."""
        context = _encode([company])
        for omitted in self._omitted:
            content = content_hash(context, record.without(omitted))
            yield content
            yield from split_hash(record_hash(identifier, content))

    def complete(self, source: bytes) -> bytes:
        """Return a stored document with these fields, which one of an earlier version lacks; tombstones have none."""
        head, record = split_record(source)
        if not record or not self.field_names or b'"%b":' % self.field_names[0].encode() in head:
            return source
        stored = msgspec.json.decode(head + b"}", type=_DocumentOwner)
        values = self.values(stored.id, stored.company, _opened(msgspec.json.decode(record), self.open_members))
        members = [b',"%b":%d' % (name.encode(), value) for name, value in zip(self.field_names, values, strict=True)]
        return add_search_fields(source, b"".join(members))


class _DocumentOwner(msgspec.Struct):
    id: str
    company: str


def _opened(record: dict[str, Any], members: Collection[str]) -> OpenRecord:
    """Split a stored record at those of the members that it has."""
    names = [name for name in record if name in members]
    values = [_encode(record[name]) for name in names]
    parts = _encode(record | dict.fromkeys(names, _PLACEHOLDER)).split(RECORD_DELIMITER)
    return OpenRecord(names, values, parts)


@cache
def restricted_hashes(resource: Resource) -> RestrictedHashes:
    """Return the hashes of a resource, compiled once."""
    return RestrictedHashes(resource)
