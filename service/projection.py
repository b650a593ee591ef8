"""Convert stored records to response records: views, flags and underscored keys, by layouts compiled once.

Listings are stored in their default index variant: its bytes pass through unchanged.

A layout is a pair of compiled types. The first decodes a stored object: it picks the members by their stored names and
fills in absent ones. The second is a subclass that adds nothing and spells the members as in the response. Assigning
that class to the decoded object converts it; Python itself refuses if the two differ in memory layout. Then it is
encoded. No Python code touches a member, and no text is searched, so values may hold anything. Strings, integers and
booleans are decoded, which is faster than skipping them; all other values stay raw JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import attrgetter
from typing import Any

import msgspec
import orjson

from mappings.fields import Field, FieldKind, View, underscore
from mappings.resource import Resource
from mappings.visibility import ADDRESS_SWITCH, refuses
from service.http.responses import JsonBytes

# Without fractions: 1e3 would be encoded as 1000.0.
_Plain = str | int | bool | None
_PLAIN = frozenset(
    {FieldKind.STRING, FieldKind.DATE, FieldKind.DATE_TIME, FieldKind.INTEGER, FieldKind.UNIX, FieldKind.BOOLEAN}
)
_UNTYPED = frozenset({FieldKind.UNTYPED, FieldKind.UNTYPED_LIST})
_members_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements_of = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, kw_only=True)
class RecordLayout:
    """How objects are decoded and encoded.

    `nested` are the members whose objects have a layout of their own, `untyped_members` those with keys that are not
    declared and that must all be respelled.
    """

    stored_type: type[msgspec.Struct]
    response_type: type[msgspec.Struct]
    nested: tuple[tuple[str, RecordLayout], ...]
    untyped_members: tuple[str, ...]

    @cached_property
    def decode(self) -> Callable[[bytes | memoryview], msgspec.Struct]:
        """Decode a stored object; raise msgspec.DecodeError at a value of another type than declared."""
        return msgspec.json.Decoder(self.stored_type).decode

    @cached_property
    def _untyped_values(self) -> Callable[[msgspec.Struct], Sequence[msgspec.Raw]]:
        names = self.untyped_members
        return attrgetter(*names) if len(names) > 1 else lambda decoded: [getattr(decoded, name) for name in names]

    def convert(self, decoded: msgspec.Struct) -> None:
        """Convert a decoded object to a response object, in place."""
        decoded.__class__ = self.response_type
        for name, layout in self.nested:
            if value := getattr(decoded, name):
                layout.convert_all(value if type(value) is list else (value,))
        raw_values = self._untyped_values(decoded)
        # Without a brace there is no object among them, hence no key.
        if b"{" in b"".join(raw_values):
            for name, raw in zip(self.untyped_members, raw_values, strict=True):
                setattr(decoded, name, _underscore_keys(raw))

    def convert_all(self, objects: Sequence[msgspec.Struct]) -> None:
        """Convert several decoded objects, in place."""
        if self.nested or self.untyped_members:
            for decoded in objects:
                self.convert(decoded)
        else:
            response_type = self.response_type
            for decoded in objects:
                decoded.__class__ = response_type


def _underscore_keys(value: msgspec.Raw) -> object:
    """Underscore every key of a value without a declared shape."""
    text = bytes(value)
    if b"{" not in text:
        return value
    if text.startswith(b"{"):
        return {underscore(key): _underscore_keys(member) for key, member in _members_of(text).items()}
    if text.startswith(b"["):
        return [_underscore_keys(element) for element in _elements_of(text)]
    return value


@dataclass(frozen=True)
class LayoutOptions:
    """The options of a layout: underscored keys, and whether values must have their declared type."""

    underscored: bool
    strict: bool

    def compile(self, fields: tuple[Field, ...], emptied: Collection[str] = ()) -> RecordLayout:
        """Compile the layout of objects with these fields; `emptied` are sent without their value."""
        nested = {field.name: self.compile(field.members) for field in fields if self.underscored and field.members}
        members = [_member(field, self._type(field, nested.get(field.name))) for field in fields]
        # A leading space makes a name that no record has, so the member is decoded as absent.
        names = {field.name: f" {field.name}" if field.name in emptied else field.name for field in fields}
        keys = {field.name: field.underscored if self.underscored else field.name for field in fields}
        stored = msgspec.defstruct("Stored", members, kw_only=True, gc=False, rename=names)
        return RecordLayout(
            stored_type=stored,
            response_type=msgspec.defstruct("Response", members, bases=(stored,), kw_only=True, gc=False, rename=keys),
            nested=tuple(nested.items()),
            untyped_members=tuple(field.name for field in fields if self.underscored and field.kind in _UNTYPED),
        )

    def _type(self, field: Field, layout: RecordLayout | None) -> Any:
        if layout is not None:
            return (list[layout.stored_type] if field.kind is FieldKind.OBJECTS else layout.stored_type) | None  # type: ignore[name-defined]
        return _Plain if self.strict and field.kind in _PLAIN else msgspec.Raw


def _member(field: Field, kind: Any) -> tuple[str, Any, Any]:
    empty = msgspec.Raw(msgspec.json.encode(field.empty_value)) if kind is msgspec.Raw else field.empty_value
    return (field.name, kind, empty)


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
        projection = _projection(self)
        encoded = records if projection is None else projection.encode(records)
        return _with_addresses_hidden(self, records, encoded) if self.hides_addresses else encoded

    @property
    def is_stored_form(self) -> bool:
        """Whether records are sent as they are stored."""
        return not self.hides_addresses and _projection(self) is None

    def render(self, record: Record) -> bytes:
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


# Doc values come as lists, even single ones, and are absent if the document has none.
_TextValues = tuple[str | None, ...]
_encode = msgspec.json.Encoder().encode


def doc_values(resource: Resource, response: bytes) -> list[Any]:
    """Return the doc values of each hit of a search response, in order, without decoding anything else.

    Shape: an object with a tuple for each search field that `timestamps_only` reads, such as `id` and `clock`.
    """
    return [hit.fields for hit in _decoder(resource)(response).hits.hits]


def encode_timestamps(resource: Resource, values: Sequence[Any], *, underscored: bool) -> list[bytes]:
    """Return the encoded records for the doc values of hits.

    Shape: the resource's identifiers, `last_updated` (unix seconds of the time that filters use),
    `modification_timestamp` (ISO 8601, from the source).
    """
    record_type = _record_type(resource, underscored=underscored)
    read = attrgetter(*resource.timestamps.values(), "clock", "modified")
    records = [record_type(*[value[0] for value in read(hit)]) for hit in values]
    for record in records:
        record.last_updated //= 1000
    return [_encode(record) for record in records]


@cache
def _values_type(resource: Resource) -> type[msgspec.Struct]:
    texts = dict.fromkeys((*resource.timestamps.values(), "modified"))
    return msgspec.defstruct(
        "Values", [("clock", tuple[int]), *((name, _TextValues, (None,)) for name in texts)], gc=False
    )


@cache
def _record_type(resource: Resource, *, underscored: bool) -> Callable[..., Any]:
    names = [underscore(name) if underscored else name for name in resource.timestamps]
    return msgspec.defstruct("Timestamps", [*names, "last_updated", "modification_timestamp"], gc=False)


@cache
def _decoder(resource: Resource) -> Callable[[bytes], Any]:
    hit = msgspec.defstruct("Hit", [("fields", _values_type(resource))], gc=False)
    hits = msgspec.defstruct("Hits", [("hits", list[hit])])  # type: ignore[valid-type]
    return msgspec.json.Decoder(msgspec.defstruct("SearchResponse", [("hits", hits)])).decode
