"""The content hashes of a record: of the whole content, and those for keys that may not see some of it.

A record is encoded once, with a raw TAB, which JSON never contains, in the place of each value that some hash omits.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from mappings import Resource
from mappings.digest import record_hash, split_hash
from mappings.display import ADDRESS_SWITCH, OPT_OUTS, refuses
from mappings.shown_content import ShownContent
from mappings.stored_document import RECORD_DELIMITER, add_search_fields, split_record

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
    """Computes the hashes of one resource for keys without some field groups, and for those with a display licence.

    They cover what the feed shows of a record, and its company: nothing of the envelope. So those of a stored document
    can be computed, too.
    """

    def __init__(self, resource: Resource) -> None:
        """Compile what follows from the declaration."""
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
        """Yield the search fields that a document lacks, each after a comma."""
        if self.field_names and not _has(head, self.field_names[0]):
            opened = _opened(msgspec.json.decode(record), self.open_members)
            yield from _encoded(self.field_names, self.values(*_owner(head), opened))
        for name, switch in self._switches:
            if not _has(head, name) and refuses(record, switch):
                yield b',"%b":true' % name.encode()
                if switch == ADDRESS_SWITCH:
                    yield from _encoded(self.address_field_names, self.address_values(*_owner(head), record))


def _hashes(identifier: str, company: str, record: OpenRecord, omissions: Iterable[Collection[str]]) -> Iterator[int]:
    context = _encode([company])
    for omitted in omissions:
        content = content_hash(context, record.without(omitted))
        yield content
        yield from split_hash(record_hash(identifier, content))


def _names(contents: Iterable[ShownContent]) -> tuple[str, ...]:
    return tuple(field.name for content in contents for field in content.search_fields)


def _has(head: bytes, name: str) -> bool:
    return b'"%b":' % name.encode() in head


def _encoded(names: Iterable[str], values: Iterable[int]) -> Iterator[bytes]:
    return (b',"%b":%d' % (name.encode(), value) for name, value in zip(names, values, strict=True))


def _owner(head: bytes) -> tuple[str, str]:
    """Return the identifier and the company of a stored document."""
    stored = msgspec.json.decode(head + b"}", type=_DocumentOwner)
    return stored.id, stored.company


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
