"""From stored records to answered ones: variants, flags and underscored keys, by forms compiled once.

The default index variant of listings is stored as it is answered: its bytes pass through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from service.form import Form, Style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mappings.fields import Field, View
    from mappings.resource import Resource
    from service.answer import Encoded

Record = dict[str, Any]
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True)
class Variant:
    """Which form of a resource is answered: the view, the flags that were sent, and the spelling of keys.

    `withheld` are the field groups that the key may not see: their fields are there, and empty.
    """

    resource: Resource
    view: View
    flags: frozenset[str] = frozenset()
    underscored: bool = False
    withheld: frozenset[str] = frozenset()

    def encode(self, records: Sequence[Encoded]) -> Sequence[Encoded]:
        """Return the encoded records in this form."""
        projection = _projection(self)
        return records if projection is None else projection.encode(records)

    def render(self, record: Record) -> bytes:
        """Return one parsed record in this form, encoded."""
        (encoded,) = self.encode([orjson.dumps(record)])
        return bytes(encoded)

    def spell(self, name: str, underscored: str) -> str:
        """Return one of two spellings of an envelope's key."""
        return underscored if self.underscored else name


@dataclass(frozen=True)
class _Projection:
    """How stored records become a variant's: which members are shown, and which of these without their values."""

    shown: tuple[Field, ...]
    emptied: frozenset[str]
    underscored: bool

    @cached_property
    def strict(self) -> Form:
        """What reads the records that the indexer wrote."""
        return Style(self.underscored, strict=True).form(self.shown, self.emptied)

    @cached_property
    def lenient(self) -> Form:
        """What reads values of any type, at a higher cost; compiled when the first such record comes."""
        return Style(self.underscored, strict=False).form(self.shown, self.emptied)

    def encode(self, records: Sequence[Encoded]) -> Sequence[Encoded]:
        # Written into one buffer and copied out of it, a record takes no more memory than it is long.
        buffer = bytearray()
        return [self._encode(record, buffer) for record in records]

    def _encode(self, record: Encoded, buffer: bytearray) -> bytes:
        form = self.strict
        try:
            read = form.decode(record)
        except msgspec.DecodeError:
            form = self.lenient
            read = form.decode(record)
        form.answer(read)
        _ENCODER.encode_into(read, buffer)
        return bytes(buffer)


@cache
def _projection(variant: Variant) -> _Projection | None:
    """Return what makes a variant of stored records; None when it is the stored form.

    Bounded by the declarations: of what a client sends flags and the spelling alone are part of a variant, of what a
    key holds the groups that there are. These are some 1,500 variants, which come to about a hundred projections.
    """
    shown = tuple(field for field in variant.resource.view(variant.view) if not _vanishes(field, variant))
    emptied = frozenset(field.name for field in shown if _unasked(field, variant) or field.group in variant.withheld)
    if shown == variant.resource.stored and not emptied and not variant.underscored:
        return None
    return _compiled(shown, emptied, variant.underscored)


# Variants that come to the same share it: to withhold a block whose flag was not sent changes nothing.
_compiled = cache(_Projection)


def _vanishes(field: Field, variant: Variant) -> bool:
    return field.flag is not None and field.flag.vanishes and field.flag.parameter not in variant.flags


def _unasked(field: Field, variant: Variant) -> bool:
    return field.flag is not None and variant.view in field.flag.views and field.flag.parameter not in variant.flags


def identifier(resource: Resource, record: Encoded) -> str:
    """Return the identifier of an encoded record; nothing else of it is decoded."""
    found: str = _identified(resource).decode(record).id
    return found


@cache
def _identified(resource: Resource) -> msgspec.json.Decoder[Any]:
    fields = [("id", str)]
    return msgspec.json.Decoder(msgspec.defstruct("Identified", fields, rename={"id": resource.identifier}))
