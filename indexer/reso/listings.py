"""From a Property to a listing or a sold listing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.errors import ItemError
from indexer.reso.images import Images, last_modified, photos, virtual_tour
from indexer.reso.left_out import LeftOut, shown
from indexer.reso.open_houses import OPEN_HOUSE, OpenHouses
from indexer.reso.spelling import Types, statuses
from indexer.reso.values import names, text
from mappings import SOLD_LISTING
from mappings.legends import PROPERTY_TYPES
from mappings.spelling import bare

if TYPE_CHECKING:
    from indexer.reso.fields import Fields
    from indexer.reso.parts import Parts
    from indexer.reso.reading import Reading
    from mappings import Resource
    from mappings.dictionary import Entity

_SOLD = "Sold"
_NOT_FOUND = -1


class Listings:
    """Makes the records of one of the two resources of listings."""

    def __init__(self, resource: Resource, entity: Entity, fields: Fields, parts: Parts) -> None:
        """Compile the tables."""
        members = {field.name: field for field in resource.stored}
        self._is_sold = resource is SOLD_LISTING
        self._statuses = statuses(entity.status)
        self._types = Types(entity.type)
        self._features = tuple(entity.features.items())
        self._fields = fields
        self._media = parts.media
        self._images = Images(members["ListingImages"])
        self._open_houses = OpenHouses(members[OPEN_HOUSE], parts.open_house_key, parts.time_zone)

    def __call__(self, reading: Reading) -> tuple[dict[str, object], dict[str, object]] | None:
        """Return record and envelope of a Property, None for one that is not served as this resource."""
        status = self._status(reading)
        if not status or (status == _SOLD) is not self._is_sold:
            return None
        number = self._type(reading)
        record = {"AgentCreatedListing": False, **self._fields(reading)}
        record["Status"] = status
        record["PropertyType"] = PROPERTY_TYPES[number]
        record["PropertyFeatures"] = self._property_features(reading)
        record[OPEN_HOUSE] = self._open_houses(reading)
        self._illustrate(reading, record)
        return record, {"property_type_id": number}

    def _status(self, reading: Reading) -> str:
        """Return our status, empty for a record that is not served; raise ItemError for an unknown one."""
        value = reading.record.get("StandardStatus")
        try:
            given = text(value)
        except LeftOut as left:
            raise ItemError("StandardStatus", left.reason) from None
        if given is None:
            raise ItemError("StandardStatus", "is missing: without it nobody knows whether the listing is for sale")
        if (status := self._statuses.get(bare(given))) is None:
            raise ItemError("StandardStatus", f"is {shown(given)}: no entry of [Property.status]")
        return status

    def _type(self, reading: Reading) -> int:
        """Return the number of the property type, that of Not Found for an unknown one."""
        kind = reading.take("PropertyType", text, reading.record.get("PropertyType"))
        if kind is None:
            return _NOT_FOUND
        subtypes = reading.take("PropertySubType", names, reading.record.get("PropertySubType"))
        if (number := self._types.number(kind, subtypes or ())) is None:
            reading.left_out.append(("PropertyType", f"is {shown(kind)}: no entry of [Property.type]"))
            return _NOT_FOUND
        return number

    def _property_features(self, reading: Reading) -> list[dict[str, object]]:
        get = reading.record.get
        return [
            {"PropertyFeatureName": name, "PropertyFeatureValues": values}
            for name, field in self._features
            if (value := get(field)) is not None and (values := reading.take(field, names, value))
        ]

    def _illustrate(self, reading: Reading, record: dict[str, object]) -> None:
        """Put in the images, and what the listing itself does not say and its media do."""
        media = self._media.of(reading)
        shots = photos(media)
        record["ListingImages"] = self._images(reading, shots)
        if "ImagesLastModified" not in record and (newest := last_modified(reading, shots)) is not None:
            record["ImagesLastModified"] = newest
        if "VirtualTourURL" not in record and (tour := virtual_tour(media)) is not None:
            record["VirtualTourURL"] = tour
