"""What the entity sets of children should answer of generated data, worked out from the source records by hand."""

import datetime as dt
from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from zoneinfo import ZoneInfo

from tests.contract.world import Envelope, World
from tests.odata.expected_entities import modified

CHILD_KEYS = {"Media": "MediaKey", "OpenHouse": "OpenHouseKey", "TeamMembers": "TeamMemberKey"}
PARENT_KEYS = {"Media": "ResourceRecordKey", "OpenHouse": "ListingKey", "TeamMembers": "MemberKey"}
_HOMES = ("listings", "sold_listings")
_PARENTS = {"Media": _HOMES, "OpenHouse": _HOMES, "TeamMembers": ("agents",)}


def _photos(envelope: Envelope) -> Iterator[dict[str, Any]]:
    record = envelope["record"]
    for at, image in enumerate(record["ListingImages"]):
        yield {
            "MediaKey": f"{record['PlatformListingId']}!{sha256(image['FullURL'].encode()).hexdigest()[:16]}",
            "ModificationTimestamp": modified(envelope),
            "ResourceName": "Property",
            "ResourceRecordKey": record["PlatformListingId"],
            "ResourceRecordID": record["ListingID"],
            "Order": at,
            "MediaCategory": "Photo",
            "MediaType": image["MimeType"].removeprefix("image/"),
            "MediaURL": image["FullURL"],
            "PreferredPhotoYN": image["IsMainListingImage"],
            "ImageWidth": image["Width"],
            "ImageHeight": image["Height"],
            "ShortDescription": image["Title"],
            "LongDescription": image["Description"],
            **{name: image[name] for name in ("Caption", "RawURL", "GalleryURL", "SmallURL", "ThumbURL")},
        }


def _with_offset(local: str) -> str:
    """Return the local time of a property with its offset: the data have no zone, and all offices this one."""
    return dt.datetime.fromisoformat(local).replace(tzinfo=ZoneInfo("America/Los_Angeles")).isoformat()


def _open_houses(envelope: Envelope) -> Iterator[dict[str, Any]]:
    record = envelope["record"]
    starts: list[str] = []
    for house in record["OpenHouse"]:
        start = f"{house['Date']}T{house['StartTime']}"
        starts.append(start)
        number = f"-{starts.count(start)}" if starts.count(start) > 1 else ""
        yield {
            "OpenHouseKey": f"{record['PlatformListingId']}!{start.replace('-', '').replace(':', '')}{number}",
            "ModificationTimestamp": modified(envelope),
            "ListingKey": record["PlatformListingId"],
            "ListingId": record["ListingID"],
            "OpenHouseDate": house["Date"],
            "OpenHouseStartTime": _with_offset(start),
            "OpenHouseEndTime": _with_offset(f"{house['Date']}T{house['EndTime']}"),
            "OpenHouseType": {True: "Livestream Public", False: "Public", None: None}[house.get("VirtualOpenHouseYN")],
            "LivestreamOpenHouseURL": house.get("VirtualOpenHouseURL"),
            "OpenHouseRemarks": house.get("Comment"),
        }


def _memberships(envelope: Envelope) -> Iterator[dict[str, Any]]:
    record = envelope["record"]
    for team in record["teams"]:
        yield {
            "TeamMemberKey": f"{record['agent_uuid']}!{team['uuid']}",
            "ModificationTimestamp": modified(envelope),
            "MemberKey": record["agent_uuid"],
            "TeamKey": team["uuid"],
            "TeamMemberType": team.get("member_category"),
        }


_MADE = {"Media": _photos, "OpenHouse": _open_houses, "TeamMembers": _memberships}


def expected_children(world: World, name: str, *companies: str) -> list[dict[str, Any]]:
    """Return what is expected of an entity set, in the order of its keys: of some companies, all if none is given."""
    envelopes = (envelope for resource in _PARENTS[name] for envelope in world.of(resource, *companies))
    found = [child for envelope in envelopes for child in _MADE[name](envelope)]
    return sorted(found, key=lambda row: str(row[CHILD_KEYS[name]]))
