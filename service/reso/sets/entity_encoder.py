"""Encodes records under Data Dictionary names, by types compiled once for each selection of properties.

As in `service.projection`, one type decodes a stored record, with the members under their stored names, and
its subclass has the names of the properties: assigning the class converts the record. Only values of other types,
search fields and property features pass through Python. A whole search response is decoded at once (decision 52).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from mappings.resource import Resource
from service.background import batches_in_turns, in_turns
from service.projection import Variant
from service.reso.sets.entity_set import FEATURES_MEMBER, EntityHeader, EntityProperty, PropertyColumn
from service.search.responses import hits_decoder, split_hits

_HIT_NAMES = {"source": "_source"}
# What is decoded in 1 ms.
_BYTES_AT_ONCE = 500_000
_ROWS_OF_A_TURN = 50
_decode_texts = msgspec.json.Decoder(list[str]).decode


class EntityHit(msgspec.Struct, gc=False):
    """A document of a search response: its search fields, with the record as a member `record`, and sort values."""

    source: Any
    sort: tuple[Any, ...]


_DecodeResponse = Callable[[bytes | bytearray], list["EntityHit"]]


class _Feature(msgspec.Struct, gc=False):
    PropertyFeatureName: str | None = None
    PropertyFeatureValues: msgspec.Raw = msgspec.Raw(b"[]")


class EntityEncoder:
    """Encodes the records of one resource as entities with some properties, in order."""

    def __init__(self, resource: Resource, properties: tuple[EntityProperty, ...]) -> None:
        collections = {declared.name for declared in properties if declared.edm.is_collection}
        placed = [
            (declared.name, declared.columns[resource]) for declared in properties if resource in declared.columns
        ]
        self._converters = [(name, column.convert, name in collections) for name, column in placed if column.convert]
        self._of_header = [(name, column.of_header) for name, column in placed if column.of_header]
        self._otherwise = [(name, column.otherwise) for name, column in placed if column.otherwise]
        self._exact = {column.source_member: name for name, column in placed if column.is_exact}
        self._features = {column.feature: name for name, column in placed if column.feature}
        # The list of features is read into the first of their properties.
        self._features_property = next(iter(self._features.values()), "")
        stored = self._stored_type(properties, dict(placed))
        self._entity_type = _renamed(stored, [declared.name for declared in properties])
        self._decode_record = msgspec.json.Decoder(stored).decode
        self._decode_response = _response_decoder(stored)

    def _stored_type(
        self, properties: tuple[EntityProperty, ...], columns: dict[str, PropertyColumn]
    ) -> type[msgspec.Struct]:
        # A leading space makes a name that no record has: the member has its empty value.
        names = {declared.name: f" {declared.name}" for declared in properties}
        of_record = {name: column.source_member for name, column in columns.items() if column.is_of_record}
        first = {member: name for name, member in reversed(of_record.items())}
        self._copied = [(name, first[member]) for name, member in of_record.items() if first[member] != name]
        names |= {name: member for member, name in first.items()}
        kinds: dict[str, Any] = dict.fromkeys(names, Any)
        if self._features_property:
            names[self._features_property] = FEATURES_MEMBER
            kinds[self._features_property] = list[_Feature] | None
        members = [
            (declared.name, kinds[declared.name], () if declared.edm.is_collection else None) for declared in properties
        ]
        return msgspec.defstruct("Stored", members, rename=names, gc=False)

    async def decode(self, response: bytes, variant: Variant) -> list[EntityHit]:
        """Return the documents of a search response in order, to be converted by `convert`.

        Fields that the variant leaves empty are emptied before properties are read from the record.
        """
        hits: list[EntityHit] = []
        if variant.is_stored_form:
            async for part in in_turns(split_hits(response, _BYTES_AT_ONCE)):
                hits += self._decode_response(part)
            return hits
        hits = decode_raw_hits(response)
        async for some in batches_in_turns(hits, _ROWS_OF_A_TURN):
            self.load([hit.source for hit in some], variant)
        return hits

    def load(self, sources: Sequence[Any], variant: Variant) -> None:
        """Read the records of raw hits, in place, to be converted by `convert`."""
        records = variant.encode([source.record for source in sources])
        for source, record in zip(sources, records, strict=True):
            source.record = self._decode_record(record)

    def convert(self, sources: Sequence[Any]) -> None:
        """Convert the records of hits to entities, in place: property by property, which is faster than one by one."""
        entities = [source.record for source in sources]
        if self._features:
            self._place_features(entities)
        self._convert_values(entities)
        for name, read in self._of_header:
            for entity, source in zip(entities, sources, strict=True):
                setattr(entity, name, read(source))
        if self._otherwise:
            self._add_history([pair for pair in zip(entities, sources, strict=True) if pair[1].has_history])
        for entity, source in zip(entities, sources, strict=True):
            if source.exact:
                self._place_exact(entity, source.exact)
            entity.__class__ = self._entity_type

    def _convert_values(self, entities: list[Any]) -> None:
        for name, first in self._copied:
            for entity in entities:
                setattr(entity, name, getattr(entity, first))
        for name, convert, is_collection in self._converters:
            for entity, value in zip(entities, map(attrgetter(name), entities), strict=True):
                if value is not None or is_collection:
                    setattr(entity, name, convert(value))

    def _place_features(self, entities: list[Any]) -> None:
        for entity, items in [(entity, getattr(entity, self._features_property)) for entity in entities]:
            setattr(entity, self._features_property, ())
            for item in items or ():
                if name := self._features.get(item.PropertyFeatureName or ""):
                    before, values = getattr(entity, name), item.PropertyFeatureValues
                    setattr(entity, name, [*_decode_texts(before), *_decode_texts(values)] if before else values)

    def _add_history(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        for name, read in self._otherwise:
            for entity, source in pairs:
                if getattr(entity, name) is None:
                    setattr(entity, name, read(source))

    def _place_exact(self, entity: Any, exact: dict[str, float]) -> None:
        for member, value in exact.items():
            # What the key may not see is null by now.
            if (name := self._exact.get(member)) and getattr(entity, name) is not None:
                setattr(entity, name, value)


def _renamed(stored: type[msgspec.Struct], names: Sequence[str]) -> type[msgspec.Struct]:
    """Return a subclass of the same layout whose members have their own names in JSON."""
    members: Any = [(name, Any, None) for name in names]
    return msgspec.defstruct("Entity", members, bases=(stored,), rename=dict(zip(names, names, strict=True)), gc=False)


def _response_decoder(record: Any) -> _DecodeResponse:
    """Return the decoder of search responses with records of a type; it raises ApiError for any other response."""
    source: Any = msgspec.defstruct("Source", [("record", record)], bases=(EntityHeader,), kw_only=True, gc=False)
    hit: Any = msgspec.defstruct("Hit", [("source", source)], bases=(EntityHit,), rename=_HIT_NAMES, gc=False)
    return hits_decoder(hit)


_decode_raw = _response_decoder(msgspec.Raw)


def decode_raw_hits(response: bytes) -> list[EntityHit]:
    """Return the documents of a search response, with their records as views of the JSON text."""
    hits = _decode_raw(response)
    for hit in hits:
        # Other than `Raw`, a view has slices, which the projection reads.
        hit.source.record = memoryview(hit.source.record)
    return hits


@lru_cache(256)
def entity_encoder(resource: Resource, properties: tuple[EntityProperty, ...]) -> EntityEncoder:
    """Return the encoder of a selection; clients repeat theirs."""
    return EntityEncoder(resource, properties)
