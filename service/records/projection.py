"""Convert stored records to response records: views, flags and underscored keys, by layouts compiled once.

Listings are stored in their default index variant: its bytes pass through unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import msgspec
import orjson

from mappings.display import ADDRESS_SWITCH, refuses
from mappings.fields import Field, View
from mappings.resource import Resource
from service.http.payload import JsonBytes
from service.records.record_layout import LayoutOptions, RecordLayout

Record = dict[str, Any]
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True)
class Variant:
    """The form of a resource's records in a response: the view, the flags of the request and the spelling of keys.

    `withheld` are the field groups that the key may not see: their fields are present and empty. `hides_addresses` is
    whether the key's licence empties the address of records that opted out of showing it.
    """

    resource: Resource
    view: View
    flags: frozenset[str] = frozenset()
    underscored: bool = False
    withheld: frozenset[str] = frozenset()
    hides_addresses: bool = False

    def encode(self, records: Sequence[JsonBytes]) -> Sequence[JsonBytes]:
        """Return the encoded records in this variant."""
        projection = _projection(self)
        encoded = records if projection is None else projection.encode(records)
        return _with_addresses_hidden(self, records, encoded) if self.hides_addresses else encoded

    @property
    def is_stored_form(self) -> bool:
        """Whether records are sent as they are stored."""
        return not self.hides_addresses and _projection(self) is None

    def render(self, record: Record) -> bytes:
        """Return one parsed record in this variant, encoded."""
        (encoded,) = self.encode([orjson.dumps(record)])
        return bytes(encoded)

    def spell(self, name: str, underscored: str) -> str:
        """Return an envelope's key in the spelling of the request."""
        return underscored if self.underscored else name


@dataclass(frozen=True)
class _Projection:
    """The conversion of stored records to a variant: its fields, and which of them are emptied."""

    fields: tuple[Field, ...]
    emptied: frozenset[str]
    underscored: bool

    @cached_property
    def strict(self) -> RecordLayout:
        """The layout for records that the indexer wrote."""
        return LayoutOptions(self.underscored, strict=True).compile(self.fields, self.emptied)

    @cached_property
    def lenient(self) -> RecordLayout:
        """A slower layout that accepts values of any type; compiled on first use."""
        return LayoutOptions(self.underscored, strict=False).compile(self.fields, self.emptied)

    def encode(self, records: Sequence[JsonBytes]) -> Sequence[JsonBytes]:
        # One shared buffer: the copy of a record takes no more memory than its length.
        buffer = bytearray()
        return [self._encode(record, buffer) for record in records]

    def _encode(self, record: JsonBytes, buffer: bytearray) -> bytes:
        layout = self.strict
        try:
            decoded = layout.decode(record)
        except msgspec.DecodeError:
            layout = self.lenient
            decoded = layout.decode(record)
        layout.convert(decoded)
        _ENCODER.encode_into(decoded, buffer)
        return bytes(buffer)


@cache
def _projection(variant: Variant) -> _Projection | None:
    """Return the projection of records that hide nothing of their address; None if it is the stored form.

    The cache is bounded by the declarations: a variant consists of views, declared flags, the spelling, field groups
    and the licence. These are some 1,500 variants, which need about 450 projections.
    """
    fields, emptied = _fields(variant), _emptied(variant)
    if fields == variant.resource.stored and not emptied and not variant.underscored:
        return None
    return _compiled(fields, emptied, variant.underscored)


@cache
def _without_address(variant: Variant) -> _Projection:
    emptied = _emptied(variant) | variant.resource.address
    return _compiled(_fields(variant), emptied, variant.underscored)


def _with_addresses_hidden(
    variant: Variant, records: Sequence[JsonBytes], encoded: Sequence[JsonBytes]
) -> Sequence[JsonBytes]:
    """Return encoded records, those that hide their address without it."""
    shown = list(encoded)
    for at, record in enumerate(records):
        if refuses(record, ADDRESS_SWITCH):
            (shown[at],) = _without_address(variant).encode([record])
    return shown


def _fields(variant: Variant) -> tuple[Field, ...]:
    view = variant.view
    return tuple(field for field in variant.resource.view(view) if not field.is_absent(view, variant.flags))


def _emptied(variant: Variant) -> frozenset[str]:
    return frozenset(field.name for field in _fields(variant) if field.group in variant.withheld)


# Shared by equal variants: withholding a group whose flag was not sent changes nothing.
_compiled = cache(_Projection)


def record_identifier(resource: Resource, record: JsonBytes) -> str:
    """Return the identifier of an encoded record without decoding the rest."""
    identifier: str = _identifier_decoder(resource).decode(record).id
    return identifier


@cache
def _identifier_decoder(resource: Resource) -> msgspec.json.Decoder[Any]:
    fields = [("id", str)]
    return msgspec.json.Decoder(msgspec.defstruct("Identified", fields, rename={"id": resource.identifier}))
