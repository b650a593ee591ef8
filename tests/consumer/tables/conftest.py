"""Records of each resource as lines of a snapshot, with values that are hard for tables."""

import json
from typing import Any

import msgspec
import orjson
import pytest

from mappings import LISTING, OFFICE, RESOURCES, Resource
from mappings.record_schema import record_type
from sample import write_source
from tests.records import record

Line = dict[str, Any]
HARD: dict[Resource, list[dict[str, Any]]] = {
    LISTING: [
        {
            "PublicRemarks": 'A "quoted" house,\nby the sea: \u20ac ,"record":{}',
            "ModificationTimestamp": "2026-01-02T03:04:05.123456789+02:00",
            "AssociationFee": 12.5,
            "LotSizeAcres": 0,
            "BathroomsTotal": 3,
            "BathroomsFull": 2,
            "Latitude": "47.6062",
            "Longitude": "-122.3321 W",
            "Address2": "Unit 3",
            "LotSizeSquareFeet": {"value": [1, None]},
            "SharedPartnerData": {"attribute_1": "one", "attribute_2": None},
            "OpenHouse": [
                {"Date": "2026-01-02", "VirtualOpenHouseURL": "https://tours.example.com", "Comment": None},
                {"Date": None, "VirtualOpenHouseURL": None, "Comment": {"by": "agent"}},
            ],
            "PropertyFeatures": [{"PropertyFeatureName": "Roof", "PropertyFeatureValues": []}],
        },
        {"ListPrice": None, "LotSizeAcres": None, "ListingImages": [], "OpenHouse": [], "PropertyFeatures": []},
    ],
    OFFICE: [{"company_programs": ["one", "two"], "address2": False}],
}


# What the source has of them that their records round.
EXACT = {"hard-0": {"LotSizeAcres": 0.23, "BathroomsTotal": 2.5}}


@pytest.fixture(scope="package")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Line]]:
    """Return the lines of a snapshot of each resource: generated records and hard ones."""
    folder = tmp_path_factory.mktemp("tables")
    write_source(folder, 60)
    return {
        resource.alias: _lines(resource, (folder / f"{resource.alias}.ndjson").read_bytes()) for resource in RESOURCES
    }


def _lines(resource: Resource, source: bytes) -> list[Line]:
    hard = [
        record(resource, **{resource.identifier: f"hard-{at}"}, **one) for at, one in enumerate(HARD.get(resource, []))
    ]
    records = [json.loads(line)["record"] for line in source.splitlines()] + hard
    stored = [json.loads(msgspec.json.encode(msgspec.convert(one, record_type(resource)))) for one in records]
    return [
        {
            "company": "acme",
            "id": one[resource.identifier],
            "sequence": at,
            "time": "2026-01-02T03:04:05.678Z",
            "content": f"{at:016x}",
            **({"exact": EXACT[name]} if (name := one[resource.identifier]) in EXACT and resource is LISTING else {}),
            "record": one,
        }
        for at, one in enumerate(stored)
    ]


def packed(lines: list[Line]) -> bytes:
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)
