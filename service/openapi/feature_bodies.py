"""The GeoJSON bodies of 200: every full record form with coordinates, as a feature or a collection."""

from dataclasses import dataclass
from typing import Any

import orjson

from service.openapi import examples
from service.openapi.nested_schemas import SCHEMA_REFERENCE
from service.openapi.response_bodies import ResponseBody, response_bodies
from service.operation import Operation
from service.records import geojson
from service.resources.response import response_of

_COORDINATES = {
    "type": "array",
    "description": "Longitude and latitude in decimal degrees, WGS 84.",
    "items": {"type": "number"},
    "minItems": 2,
    "maxItems": 2,
}
POINT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"type": {"type": "string", "const": "Point"}, "coordinates": _COORDINATES},
    "required": ["type", "coordinates"],
}
POINT_SCHEMA_NAME = "Point"


@dataclass(frozen=True)
class FeatureBody:
    """A response form as GeoJSON; `body` is the same form as JSON."""

    body: ResponseBody

    @property
    def name(self) -> str:
        """The name of its schema, such as `ListingFeatures`."""
        return f"{self._feature_name}s" if self.body.is_collection else self._feature_name

    @property
    def _feature_name(self) -> str:
        return f"{self.body.records.name}Feature"

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """Its schemas by name."""
        return {self._feature_name: self._feature} | ({self.name: self._collection} if self.body.is_collection else {})

    @property
    def _feature(self) -> dict[str, Any]:
        geometry = {
            "anyOf": [{"$ref": SCHEMA_REFERENCE.format(POINT_SCHEMA_NAME)}, {"type": "null"}],
            "description": "Null: unknown.",
        }
        identifier = {"type": "string", "description": "The identifier of the record."}
        return _geojson_object(
            "Feature", {"id": identifier, "geometry": geometry, "properties": self.body.records.reference}
        )

    @property
    def _collection(self) -> dict[str, Any]:
        features = {"type": "array", "items": {"$ref": SCHEMA_REFERENCE.format(self._feature_name)}}
        return _geojson_object("FeatureCollection", {**self.body.paging, "features": features})

    @property
    def example(self) -> Any:
        """An example, rendered from the example of the record."""
        records = self.body.records
        variant = examples.example_variant(records.resource, records.view, underscored=records.underscored)
        encoded = orjson.dumps(records.example)
        collection = geojson.feature_collection(variant, [encoded], is_final=True)
        return orjson.loads(b"".join(collection if self.body.is_collection else geojson.feature(variant, encoded)))


def feature_bodies(operation: Operation) -> tuple[FeatureBody, ...]:
    """Return every GeoJSON form of an operation's response, the default first; none without coordinates."""
    if not geojson.has_coordinates(response_of(operation).resource):
        return ()
    return tuple(FeatureBody(body) for body in response_bodies(operation) if not body.records.brief)


def _geojson_object(kind: str, members: dict[str, Any]) -> dict[str, Any]:
    properties = {"type": {"type": "string", "const": kind}, **members}
    return {"type": "object", "properties": properties, "required": list(properties)}
