"""The bodies of 200 that are GeoJSON: every whole form of a record with coordinates, as a feature or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from service import geojson
from service.openapi import examples
from service.openapi.answers import bodies, resource_of
from service.openapi.nested import REFERENCE

if TYPE_CHECKING:
    from service.openapi.answers import Body
    from service.operation import Operation

_PLACE = {
    "type": "array",
    "description": "Longitude and latitude in decimal degrees, WGS 84.",
    "items": {"type": "number"},
    "minItems": 2,
    "maxItems": 2,
}
POINT: dict[str, Any] = {
    "type": "object",
    "properties": {"type": {"type": "string", "const": "Point"}, "coordinates": _PLACE},
    "required": ["type", "coordinates"],
}
POINT_NAME = "Point"


@dataclass(frozen=True)
class Features:
    """A form of an answer as GeoJSON; `body` is the same form as JSON."""

    body: Body

    @property
    def name(self) -> str:
        """The name of its schema, such as `ListingFeatures`."""
        return f"{self._one}s" if self.body.around else self._one

    @property
    def _one(self) -> str:
        return f"{self.body.records.name}Feature"

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """The schemas that it is made of, by name."""
        return {self._one: self._feature} | ({self.name: self._collection} if self.body.around else {})

    @property
    def _feature(self) -> dict[str, Any]:
        place = {"anyOf": [{"$ref": REFERENCE.format(POINT_NAME)}, {"type": "null"}], "description": "Null: unknown."}
        identifier = {"type": "string", "description": "The identifier of the record."}
        return _object("Feature", {"id": identifier, "geometry": place, "properties": self.body.records.reference})

    @property
    def _collection(self) -> dict[str, Any]:
        features = {"type": "array", "items": {"$ref": REFERENCE.format(self._one)}}
        return _object("FeatureCollection", {**self.body.beside, "features": features})

    @property
    def example(self) -> Any:
        """An example: what the service makes of the example of the record."""
        records = self.body.records
        form = examples.form(records.resource, records.view, underscored=records.underscored)
        encoded = orjson.dumps(records.example)
        collected = geojson.collection(form, [encoded], final=True)
        return orjson.loads(b"".join(collected if self.body.around else geojson.feature(form, encoded)))


def features(operation: Operation) -> tuple[Features, ...]:
    """Return every form of an operation's answer as GeoJSON, the default one first; none where no place is known."""
    if not geojson.is_placed(resource_of(operation)):
        return ()
    return tuple(Features(body) for body in bodies(operation) if not body.records.brief)


def _object(kind: str, members: dict[str, Any]) -> dict[str, Any]:
    properties = {"type": {"type": "string", "const": kind}, **members}
    return {"type": "object", "properties": properties, "required": list(properties)}
