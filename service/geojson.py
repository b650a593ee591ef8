"""Records with coordinates as GeoJSON (RFC 7946): each one a feature whose properties are the record as JSON has it.

A record goes into its feature as the bytes that it is; of it three members are read.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from mappings.naming import underscore
from service.errors import InvalidRequest
from service.media import prefers_geojson

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mappings.resource import Resource
    from service.answer import Encoded
    from service.operation import Call
    from service.projection import Variant

LATITUDE, LONGITUDE = "Latitude", "Longitude"
_PLACED = frozenset({LATITUDE, LONGITUDE})
_BRIEF = "timestamps_only"
# Decimal degrees. Python's own notion of a number is wider: nan, 1_000, digits of other scripts.
_DEGREES = re.compile(r" *[+-]?[0-9]{1,3}(?:\.[0-9]*)? *")
_CLOSED = b"}"


@cache
def is_placed(resource: Resource) -> bool:
    """Tell whether the records of a resource have coordinates."""
    return _PLACED.issubset(field.name for field in resource.fields)


def is_asked(call: Call) -> bool:
    """Tell whether a request for records with coordinates asks for features.

    Raises InvalidRequest where it also asks for records without any: that is no map, and a mistake.
    """
    if not prefers_geojson(", ".join(call.headers.getall("Accept", ()))):
        return False
    if call.parameters.get(_BRIEF):
        raise InvalidRequest.of(_BRIEF, "has no coordinates; ask for application/json, or for whole records.")
    return True


def collection(variant: Variant, records: Sequence[Encoded], *, final: bool) -> list[Encoded]:
    """Return the parts of a collection of features; every second one is a record, as in `responses.array`."""
    truth = "true" if final else "false"
    head = f'{{"type":"FeatureCollection","{variant.spell("FinalPage", "final_page")}":{truth},"features":['.encode()
    if not records:
        return [head, b"]}"]
    parts: list[Encoded] = [b"}]}"] * (2 * len(records) + 1)
    opening = _opening(variant)
    parts[0:-1:2] = [b"}," + opening(record) for record in records]
    parts[0] = head + parts[0][2:]
    parts[1::2] = records
    return parts


def feature(variant: Variant, record: Encoded) -> list[Encoded]:
    """Return the parts of one feature."""
    return [_opening(variant)(record), record, _CLOSED]


def _opening(variant: Variant) -> Callable[[Encoded], bytes]:
    """Return what makes the bytes of a feature before its record."""
    read = _reader(variant.resource, underscored=variant.underscored)

    def opening(record: Encoded) -> bytes:
        found = read(record)
        place = _point(found.longitude, found.latitude)
        return b'{"type":"Feature","id":%b,"geometry":%b,"properties":' % (bytes(found.id), place)

    return opening


def _point(longitude: object, latitude: object) -> bytes:
    """Return the geometry of a place on earth; null where either coordinate is none."""
    x, y = _degrees(longitude, 180), _degrees(latitude, 90)
    return b"null" if x is None or y is None else f'{{"type":"Point","coordinates":[{x!r},{y!r}]}}'.encode()


def _degrees(value: object, most: int) -> float | None:
    """Return a coordinate that a record has, as a text or a number, if it is within bounds."""
    if not _DEGREES.fullmatch(text := str(value)):
        return None
    degrees = float(text)
    return degrees if -most <= degrees <= most else None


@cache
def _reader(resource: Resource, *, underscored: bool) -> Callable[[Encoded], Any]:
    """Return what decodes the identifier, still encoded, and the coordinates of an encoded record."""
    keys = {"id": resource.identifier, "latitude": LATITUDE, "longitude": LONGITUDE}
    members: list[tuple[str, Any] | tuple[str, Any, Any]]
    members = [("id", msgspec.Raw), ("latitude", Any, None), ("longitude", Any, None)]
    renamed = {name: underscore(key) if underscored else key for name, key in keys.items()}
    return msgspec.json.Decoder(msgspec.defstruct("Placed", members, rename=renamed, gc=False)).decode
