"""Made-up media and open houses."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sample.ingredients import between, pick, uuid

if TYPE_CHECKING:
    from random import Random

    from tests.reso.server.schema import Record

_CATEGORIES = ("Photo",) * 17 + ("Video", "Document", "Floor Plan")


def make_photo(chance: Random, key: str, resource: str, parent: str, order: int) -> Record:
    """Return a photo, seldom something else, of a record of a resource; `order` counts from 1."""
    category = pick(chance, _CATEGORIES) if resource == "Property" else "Photo"
    has_size = chance.random() < 0.7
    return {
        "MediaKey": key,
        "ResourceName": resource,
        "ResourceRecordKey": parent,
        "ResourceRecordID": None,
        "MediaURL": f"https://media.example.com/{uuid(chance)}.jpg",
        "MediaCategory": category,
        "MediaType": "pdf" if category == "Document" else "jpeg",
        "MediaStatus": pick(chance, ("Complete", "Complete", None)),
        "Order": order,
        "PreferredPhotoYN": order == 1 if chance.random() < 0.8 else None,
        "ShortDescription": pick(chance, ("Front", "Kitchen", "View", None)),
        "LongDescription": None,
        "ImageWidth": 2048 if has_size else None,
        "ImageHeight": 1365 if has_size else None,
        "ImageSizeDescription": None,
        "Permission": ["Private"] if chance.random() < 0.03 else ["Public"],
        "MediaModificationTimestamp": "2026-01-02T03:04:05.060Z",
    }


def make_open_house(chance: Random, key: str, parent: Record, today: dt.date) -> Record:
    """Return an open house of a listing, some of them over; start and end are in UTC."""
    day, hour = today + dt.timedelta(days=between(chance, -20, 20)), between(chance, 9, 20)
    is_virtual = chance.random() < 0.1
    return {
        "OpenHouseKey": key,
        "ListingKey": parent["ListingKey"],
        "ListingId": parent["ListingId"],
        "OpenHouseDate": day.isoformat(),
        "OpenHouseStartTime": f"{day}T{hour:02d}:00:00.000Z",
        "OpenHouseEndTime": f"{day}T{hour + 2:02d}:30:00.000Z",
        "OpenHouseStatus": pick(chance, ("Active",) * 8 + ("Canceled", "Ended")),
        "OpenHouseType": pick(chance, ("Public", "Public", "Broker", "Office")),
        "OpenHouseRemarks": pick(chance, ("Come by.", "Masks & shoes off.", None)),
        "VirtualOpenHouseURL": "https://live.example.com/1" if is_virtual else None,
        "LivestreamOpenHouseURL": None,
        "ShowingAgentKey": parent["ListAgentKey"],
        "AppointmentRequiredYN": chance.random() < 0.2,
        "OriginalEntryTimestamp": "2026-01-02T03:04:05.070Z",
    }
