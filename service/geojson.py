"""Records with coordinates as GeoJSON (RFC 7946): features whose properties are the record as in JSON.

The bytes of a record go into its feature unchanged; only the identifier and the coordinates are decoded.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from mappings.fields import underscore
from mappings.resource import Resource
from service.capability import Capability
from service.errors import InvalidRequest
from service.http.requests import GEOJSON
from service.http.responses import JsonBytes
from service.projection import Variant

LATITUDE, LONGITUDE = "Latitude", "Longitude"
_COORDINATES = frozenset({LATITUDE, LONGITUDE})
_TIMESTAMPS_ONLY = "timestamps_only"
# Decimal degrees. `float` accepts more: nan, 1_000, digits of other scripts.
_DEGREES = re.compile(r" *[+-]?[0-9]{1,3}(?:\.[0-9]*)? *")
_FEATURE_END = b"}"


@cache
def has_coordinates(resource: Resource) -> bool:
    return _COORDINATES.issubset(field.name for field in resource.fields)


def feature_collection(variant: Variant, records: Sequence[JsonBytes], *, is_final: bool) -> list[JsonBytes]:
    """Return the parts of a feature collection; every second one is a record, as in `responses.json_array`."""
    final = "true" if is_final else "false"
    head = f'{{"type":"FeatureCollection","{variant.spell("FinalPage", "final_page")}":{final},"features":['.encode()
    if not records:
        return [head, b"]}"]
    parts: list[JsonBytes] = [b"}]}"] * (2 * len(records) + 1)
    start = _feature_start(variant)
    parts[0:-1:2] = [b"}," + start(record) for record in records]
    parts[0] = head + parts[0][2:]
    parts[1::2] = records
    return parts


def feature(variant: Variant, record: JsonBytes) -> list[JsonBytes]:
    return [_feature_start(variant)(record), record, _FEATURE_END]


def _feature_start(variant: Variant) -> Callable[[JsonBytes], bytes]:
    """Return the function that builds the bytes of a feature before its record."""
    read = _reader(variant.resource, underscored=variant.underscored)

    def start(record: JsonBytes) -> bytes:
        members = read(record)
        point = _point(members.longitude, members.latitude)
        return b'{"type":"Feature","id":%b,"geometry":%b,"properties":' % (bytes(members.id), point)

    return start


def _point(longitude: object, latitude: object) -> bytes:
    """Return a point geometry; null if a coordinate is missing or invalid, or if both are 0, which stands for none."""
    x, y = _degrees(longitude, 180), _degrees(latitude, 90)
    if x is None or y is None or x == y == 0:
        return b"null"
    return f'{{"type":"Point","coordinates":[{x!r},{y!r}]}}'.encode()


def _degrees(value: object, limit: int) -> float | None:
    """Return a coordinate, stored as a string or a number, if it is within its limit."""
    if not _DEGREES.fullmatch(text := str(value)):
        return None
    degrees = float(text)
    return degrees if -limit <= degrees <= limit else None


@cache
def _reader(resource: Resource, *, underscored: bool) -> Callable[[JsonBytes], Any]:
    """Return the decoder for the identifier, as raw JSON, and the coordinates of a record."""
    keys = {"id": resource.identifier, "latitude": LATITUDE, "longitude": LONGITUDE}
    members: list[tuple[str, Any] | tuple[str, Any, Any]]
    members = [("id", msgspec.Raw), ("latitude", Any, None), ("longitude", Any, None)]
    renamed = {name: underscore(key) if underscored else key for name, key in keys.items()}
    return msgspec.json.Decoder(msgspec.defstruct("Coordinates", members, rename=renamed, gc=False)).decode


class GeoJson:
    """The format of records with coordinates that clients prefer to JSON by their `Accept`."""

    media_type = GEOJSON

    def applies_to(self, resource: Resource) -> bool:
        return has_coordinates(resource)

    def require(self, parameters: Mapping[str, Any]) -> None:
        """Raise InvalidRequest for `timestamps_only`, whose records have no coordinates."""
        if parameters.get(_TIMESTAMPS_ONLY):
            raise InvalidRequest.of(_TIMESTAMPS_ONLY, "has no coordinates; request application/json, or full records.")

    def page(self, variant: Variant, records: Sequence[JsonBytes], *, is_final: bool) -> list[JsonBytes]:
        return feature_collection(variant, records, is_final=is_final)

    def record(self, variant: Variant, record: JsonBytes) -> list[JsonBytes]:
        return feature(variant, record)


CAPABILITY = Capability("geojson", formats=(GeoJson(),), pages=("geojson", "map"))
