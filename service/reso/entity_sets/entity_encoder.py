"""Encodes records under Data Dictionary names, by a plan compiled once for each selection of properties."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from service.reso.entity_sets.property_columns import FEATURES_MEMBER

if TYPE_CHECKING:
    from collections.abc import Callable

    from mappings.resource import Resource
    from service.feed.hit_parser import ExactHeader
    from service.http.payload import JsonBytes
    from service.reso.entity_sets.entity_set import EntityProperty

_NOTHING = "_nothing"
_ENCODER = msgspec.json.Encoder()


class _Feature(msgspec.Struct, gc=False):
    PropertyFeatureName: str | None = None
    PropertyFeatureValues: list[str] = []


class EntityEncoder:
    """Encodes the records of one resource as entities with some properties, in order."""

    def __init__(self, resource: Resource, properties: tuple[EntityProperty, ...]) -> None:
        """Compile the plan."""
        columns = [declared.columns.get(resource) for declared in properties]
        placed = [(at, column) for at, column in enumerate(columns) if column is not None]
        members = [
            _NOTHING if column is None or column.of_header or column.feature else column.source_member
            for column in columns
        ]
        self._empty = [at for at, each in enumerate(properties) if columns[at] is None and each.edm.is_collection]
        self._features = [(at, column.feature) for at, column in placed if column.feature]
        self._of_header = [(at, column.of_header) for at, column in placed if column.of_header]
        self._convert = [(at, column.convert) for at, column in placed if column.convert]
        self._exact = [(at, column.source_member) for at, column in placed if column.is_exact]
        types = dict.fromkeys(members, Any) | ({FEATURES_MEMBER: list[_Feature] | None} if self._features else {})
        self._decode = msgspec.json.Decoder(_struct("Members", types)).decode
        self._values = _getter(members)
        self._entity: Callable[..., Any] = _struct(
            "Entity", dict.fromkeys((declared.name for declared in properties), Any)
        )

    def encode(self, record: JsonBytes, header: ExactHeader) -> bytes:
        """Return a record as a JSON object."""
        decoded = self._decode(record)
        values = list(self._values(decoded))
        for at, convert in self._convert:
            values[at] = convert(values[at])
        for at, read in self._of_header:
            values[at] = read(header)
        if self._features:
            self._place_features(values, getattr(decoded, FEATURES_MEMBER))
        if header.exact:
            for at, name in self._exact:
                # What the key may not see is null by now.
                if name in header.exact and values[at] is not None:
                    values[at] = header.exact[name]
        for at in self._empty:
            values[at] = []
        return _ENCODER.encode(self._entity(*values))

    def _place_features(self, values: list[Any], items: list[_Feature] | None) -> None:
        found: dict[str | None, list[str]] = {}
        for item in items or ():
            found.setdefault(item.PropertyFeatureName, []).extend(item.PropertyFeatureValues)
        for at, feature in self._features:
            values[at] = found.get(feature, [])


def _struct(name: str, members: dict[str, Any]) -> Any:
    return msgspec.defstruct(name, [(member, kind, None) for member, kind in members.items()], gc=False)


def _getter(members: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(members) > 1:
        return attrgetter(*members)
    read = attrgetter(members[0])
    return lambda decoded: (read(decoded),)


@lru_cache(256)
def entity_encoder(resource: Resource, properties: tuple[EntityProperty, ...]) -> EntityEncoder:
    """Return the encoder of a selection; clients repeat theirs."""
    return EntityEncoder(resource, properties)
