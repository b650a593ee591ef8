"""Mapping of a Property to a listing or a sold listing."""

from indexer.errors import InvalidRecordError
from indexer.reso.mapping.converters import to_names, to_text
from indexer.reso.mapping.field_mapper import FieldMapper
from indexer.reso.mapping.listing_images import (
    ListingImageMapper,
    images_last_modified,
    select_photos,
    virtual_tour_url,
)
from indexer.reso.mapping.lookup_tables import PropertyTypeLookup, normalize_keys
from indexer.reso.mapping.mapping_context import MappingContext, RecordAndEnvelope
from indexer.reso.mapping.open_house_mapper import OPEN_HOUSE, OpenHouseMapper
from indexer.reso.mapping.shared_mappers import SharedMappers
from indexer.reso.mapping.source_values import UnmappableValue, describe_value
from mappings import SOLD_LISTING, Resource
from mappings.data_dictionary.model import DictionaryEntity
from mappings.legends import PROPERTY_TYPES
from mappings.values.normalization import normalize_lookup

_SOLD = "Sold"
_UNKNOWN_TYPE = -1


class ListingMapper:
    """Maps the records of listings or of sold listings."""

    def __init__(
        self, resource: Resource, entity: DictionaryEntity, fields: FieldMapper, shared: SharedMappers
    ) -> None:
        """Compile the lookup tables."""
        members = {field.name: field for field in resource.stored}
        self._is_sold = resource is SOLD_LISTING
        self._statuses = normalize_keys(entity.status)
        self._types = PropertyTypeLookup(entity.type)
        self._features = tuple(entity.features.items())
        self._fields = fields
        self._media = shared.media_selector
        self._images = ListingImageMapper(members["ListingImages"])
        self._open_houses = OpenHouseMapper(members[OPEN_HOUSE], shared.open_house_key, shared.time_zone)

    def __call__(self, context: MappingContext) -> RecordAndEnvelope | None:
        """Return record and envelope, None for a Property that is not served as this resource."""
        status = self._status(context)
        if not status or (status == _SOLD) is not self._is_sold:
            return None
        number = self._type(context)
        record = {"AgentCreatedListing": False, **self._fields(context)}
        record["Status"] = status
        record["PropertyType"] = PROPERTY_TYPES[number]
        record["PropertyFeatures"] = self._property_features(context)
        record[OPEN_HOUSE] = self._open_houses(context)
        self._add_media(context, record)
        return record, {"property_type_id": number}

    def _status(self, context: MappingContext) -> str:
        """Return our status, empty for a record that is not served; raise InvalidRecordError for an unknown one."""
        value = context.record.get("StandardStatus")
        try:
            text = to_text(value)
        except UnmappableValue as error:
            raise InvalidRecordError("StandardStatus", error.reason) from None
        if text is None:
            raise InvalidRecordError("StandardStatus", "is missing, so it is unknown whether the listing is for sale")
        if (status := self._statuses.get(normalize_lookup(text))) is None:
            raise InvalidRecordError("StandardStatus", f"is {describe_value(text)}: not in [Property.status]")
        return status

    def _type(self, context: MappingContext) -> int:
        """Return the number of the property type, -1 (Not Found) for an unknown one."""
        kind = context.convert("PropertyType", to_text, context.record.get("PropertyType"))
        if kind is None:
            return _UNKNOWN_TYPE
        subtypes = context.convert("PropertySubType", to_names, context.record.get("PropertySubType"))
        if (number := self._types.find(kind, subtypes or ())) is None:
            context.omitted.append(("PropertyType", f"is {describe_value(kind)}: not in [Property.type]"))
            return _UNKNOWN_TYPE
        return number

    def _property_features(self, context: MappingContext) -> list[dict[str, object]]:
        get = context.record.get
        return [
            {"PropertyFeatureName": name, "PropertyFeatureValues": values}
            for name, field in self._features
            if (value := get(field)) is not None and (values := context.convert(field, to_names, value))
        ]

    def _add_media(self, context: MappingContext, record: dict[str, object]) -> None:
        """Add the images, and fields that the listing lacks but its media have."""
        media = self._media.select(context)
        photos = select_photos(media)
        record["ListingImages"] = self._images(context, photos)
        if "ImagesLastModified" not in record and (newest := images_last_modified(context, photos)) is not None:
            record["ImagesLastModified"] = newest
        if "VirtualTourURL" not in record and (tour := virtual_tour_url(media)) is not None:
            record["VirtualTourURL"] = tour
