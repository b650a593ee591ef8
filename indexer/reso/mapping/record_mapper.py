"""Mapping of source records to the records that the API serves: listings, agents, offices and teams."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from indexer.errors import InvalidRecordError
from indexer.reso.mapping.fields import (
    FieldMapper,
    FirstValue,
    IdentifierFactory,
    MappingContext,
    PropertyTypeLookup,
    RecordAndEnvelope,
    SourceRecords,
    key_text,
    normalize_keys,
)
from indexer.reso.mapping.parts import (
    MEDIA_ENTITY,
    OPEN_HOUSE,
    PHOTO_CATEGORIES,
    ListingImageMapper,
    MediaItem,
    MediaSelector,
    OpenHouseMapper,
    PropertyTimeZone,
    first_of_category,
    images_last_modified,
    select_photos,
    virtual_tour_url,
)
from indexer.reso.mapping.values import (
    UnmappableValue,
    converter_for,
    describe_value,
    limit_searchable,
    to_boolean,
    to_names,
    to_text,
    to_timestamp,
    to_unix_seconds,
)
from mappings import AGENT, LISTING, OFFICE, RESOURCES, SOLD_LISTING, TEAM, Resource
from mappings.data_dictionary import MODIFICATION_TIMESTAMP, DataDictionary, DictionaryEntity, normalize_lookup
from mappings.fields import Field
from mappings.history import DICTIONARY_FIELDS
from mappings.listing import HISTORY, PROPERTY_TYPES, TIME_ZONE
from mappings.open_houses import find_time_zone

MapRecord = Callable[[MappingContext], RecordAndEnvelope | None]

_MEMBERS = "TeamMembers"
_TEAMS = "Teams"


class TeamMemberships:
    def __init__(self, team: DictionaryEntity, identifiers: IdentifierFactory) -> None:
        self._name = FirstValue(team.sources_for("name"), to_text, identifiers)
        self._uuid = identifiers.uuid

    def teams_of(self, context: MappingContext) -> list[dict[str, object]]:
        """Return the teams of an agent, sorted by UUID, without teams that the source lacks."""
        by_uuid: dict[str, dict[str, object]] = {}
        for part in context.parts(_MEMBERS):
            if (team := self._team(context, part)) is not None:
                by_uuid.setdefault(str(team["uuid"]), team)
        return [by_uuid[uuid] for uuid in sorted(by_uuid)]

    def _team(self, context: MappingContext, part: dict[str, Any]) -> dict[str, object] | None:
        key = key_text(part.get("TeamKey"))
        if key is None or not (team := context.related(_TEAMS, key)):
            return None
        category = context.convert(f"{_MEMBERS}.TeamMemberType", to_text, part.get("TeamMemberType"))
        name = self._name(context.for_record(_TEAMS, key, team))
        known = {} if category is None else {"member_category": category}
        return {"name": name, "uuid": self._uuid(key), **known}


_SOLD = "Sold"
_UNKNOWN_TYPE = -1


class HistoryMapper:
    """Maps what the source says of earlier prices and statuses (`mappings.history`)."""

    def __init__(self, entity: DictionaryEntity, identifiers: IdentifierFactory) -> None:
        kinds = {field.name: field.kind for field in DICTIONARY_FIELDS}
        self._values = {
            name: FirstValue(sources, converter_for(kinds[name]), identifiers)
            for name, sources in entity.history_sources.items()
        }

    def __call__(self, context: MappingContext) -> dict[str, object]:
        found = {name: value(context) for name, value in self._values.items()}
        return {name: value for name, value in found.items() if value is not None}


class ListingMapper:
    def __init__(  # noqa: PLR0913 - its parts
        self,
        resource: Resource,
        entity: DictionaryEntity,
        *,
        fields: FieldMapper,
        media: MediaSelector,
        open_houses: OpenHouseMapper,
        history: HistoryMapper,
    ) -> None:
        self._is_sold = resource is SOLD_LISTING
        self._statuses = normalize_keys(entity.status)
        self._types = PropertyTypeLookup(entity.type)
        self._features = tuple(entity.features.items())
        self._fields, self._media, self._open_houses, self._history = fields, media, open_houses, history
        self._images = ListingImageMapper(_member(resource, "ListingImages"))

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
        record[OPEN_HOUSE], zone = self._open_houses(context)
        self._add_media(context, record)
        envelope: dict[str, object] = {"property_type_id": number}
        if zone is not None:
            envelope[TIME_ZONE] = zone.key
        if history := self._history(context):
            envelope[HISTORY] = history
        return record, envelope

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


class DeactivationRule:
    """Determines since when a record is inactive."""

    def __init__(self, entity: DictionaryEntity, identifiers: IdentifierFactory) -> None:
        declared = () if entity.inactive is None else (entity.inactive,)
        self._is_inactive = FirstValue(declared, to_boolean, identifiers)

    def deactivated_since(self, context: MappingContext) -> str | None:
        """Return the modification time of an inactive record, None for an active one.

        Raise InvalidRecordError for an inactive record without it: the index needs the time of a deactivation.
        """
        if self._is_inactive(context) is not True:
            return None
        value = context.record.get(MODIFICATION_TIMESTAMP)
        since: str | None = context.convert(MODIFICATION_TIMESTAMP, to_timestamp, value)
        if since is None:
            raise InvalidRecordError(
                MODIFICATION_TIMESTAMP, "is missing, so it is unknown since when the record is inactive"
            )
        return since


def _agent_mapper(
    entity: DictionaryEntity,
    fields: FieldMapper,
    identifiers: IdentifierFactory,
    media: MediaSelector,
    memberships: TeamMemberships,
) -> MapRecord:
    source_agent_id = FirstValue(entity.source_agent_id_sources, limit_searchable(to_text), identifiers)
    deactivation = DeactivationRule(entity, identifiers)

    def map_agent(context: MappingContext) -> RecordAndEnvelope:
        record, envelope = fields(context), dict[str, object]()
        since = deactivation.deactivated_since(context)
        record.setdefault("profile_visible_online", since is None)
        if since is not None:
            record["deactivated_timestamp"], envelope["deactivated_at"] = to_unix_seconds(since), since
        if (identifier := source_agent_id(context)) is not None:
            envelope["source_agent_id"] = identifier
        if (address := record.get("primary_email_address")) is not None:
            record["email_addresses"] = {"primary": address}
        record["teams"] = record.get("teams") or memberships.teams_of(context)
        photos = ("agentphoto", "memberphoto", *PHOTO_CATEGORIES)
        _add_urls(record, media.select(context), {"profile_image_url": photos, "profile_thumb_url": photos})
        return record, envelope

    return map_agent


def _office_mapper(
    entity: DictionaryEntity, fields: FieldMapper, identifiers: IdentifierFactory, media: MediaSelector
) -> MapRecord:
    deactivation = DeactivationRule(entity, identifiers)
    urls = {"image_url": ("officephoto", *PHOTO_CATEGORIES), "logo_url": ("officelogo", "logo")}

    def map_office(context: MappingContext) -> RecordAndEnvelope:
        record = fields(context)
        since = deactivation.deactivated_since(context)
        _add_urls(record, media.select(context), urls)
        return record, {} if since is None else {"deactivated_at": since}

    return map_office


def _team_mapper(fields: FieldMapper, media: MediaSelector) -> MapRecord:
    urls = {"logo_url": ("teamlogo", "logo", "officelogo"), "photo_url": ("teamphoto", *PHOTO_CATEGORIES)}

    def map_team(context: MappingContext) -> RecordAndEnvelope:
        record = {"active": True, **fields(context)}  # unless its fields say otherwise
        _add_urls(record, media.select(context), urls)
        return record, {}

    return map_team


def _add_urls(record: dict[str, object], media: list[MediaItem], urls: Mapping[str, tuple[str, ...]]) -> None:
    """Add the URLs that a record lacks, each from the first medium of the first category present."""
    for name, categories in urls.items():
        if (item := first_of_category(media, *categories)) is not None:
            record.setdefault(name, item.url)


@dataclass(frozen=True)
class MappedRecord:
    """A record by our field names, additional envelope fields, and the source values in neither.

    `omitted` are pairs of a Data Dictionary field (of another entity: `Media.ImageWidth`) and a reason. `assumed` are
    the times of which the source does not say the zone (`MappingContext`).
    """

    record: dict[str, object]
    envelope: dict[str, object]
    omitted: tuple[tuple[str, str], ...]
    assumed: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class _ResourceMapping:
    entity: str
    key: str  # the key field of the entity
    identifier: str  # our identifier field
    identify: Callable[[str], str]
    map: MapRecord


class RecordMapper:
    """Maps source records to our records, by a dictionary that is compiled once."""

    def __init__(
        self, dictionary: DataDictionary, records: SourceRecords, prefix: str = "", time_zone: str | None = None
    ) -> None:
        """Compile the dictionary.

        `prefix` is put before every key in identifiers. `time_zone` is the default for listings without one; raise
        ValueError for an unknown name.
        """
        zone = None if time_zone is None else find_time_zone(time_zone)
        if time_zone is not None and zone is None:
            raise ValueError(f"{time_zone!r} is not a time zone: use a name such as America/Los_Angeles")
        self._records = records
        self._identifiers = IdentifierFactory(prefix)
        self._dictionary = dictionary
        entities = dictionary.entities
        self._zone = zone
        self._media = MediaSelector(entities[MEDIA_ENTITY], self._identifiers)
        served = {alias for entity in entities.values() for alias in entity.aliases}
        self._mappings = {
            resource.alias: self._resource_mapping(resource) for resource in RESOURCES if resource.alias in served
        }

    def identifier(self, alias: str, key: str) -> str:
        """Return our identifier for a source key; raise InvalidRecordError for a key that cannot become one."""
        mapping = self._mappings[alias]
        try:
            return mapping.identify(key)
        except InvalidRecordError as error:
            raise InvalidRecordError(mapping.key, error.reason) from None

    def map_record(self, alias: str, key: str) -> MappedRecord | None:
        """Return the record of a resource that is mapped from the source record with a key.

        None if the source record is missing, its status is not served, or it belongs to the other listing resource
        (listings, sold listings). Raise InvalidRecordError, with the Data Dictionary field, for an invalid record.
        """
        mapping = self._mappings[alias]
        if (source := self._records.record(mapping.entity, key)) is None:
            return None
        context = MappingContext(self._records, mapping.entity, key, source)
        if (mapped := mapping.map(context)) is None:
            return None
        _check_key(mapping.key, key, source)
        record, envelope = mapped
        record[mapping.identifier] = self.identifier(alias, key)
        return MappedRecord(record, envelope, tuple(context.omitted), tuple(context.assumed))

    def _resource_mapping(self, resource: Resource) -> _ResourceMapping:
        name = self._dictionary.entity_for(resource.alias)
        entity = self._dictionary.entities[name]
        [identifier] = entity.sources_for(resource.identifier)
        identify = self._identifiers.uuid if identifier.uuid is not None else self._identifiers.plain
        return _ResourceMapping(name, entity.key, resource.identifier, identify, self._mapper_for(resource, entity))

    def _mapper_for(self, resource: Resource, entity: DictionaryEntity) -> MapRecord:
        fields = FieldMapper(resource, entity, self._identifiers)
        if resource in {LISTING, SOLD_LISTING}:
            key = self._dictionary.entities[OPEN_HOUSE].key
            time_zone = PropertyTimeZone(entity, self._identifiers, self._zone)
            open_houses = OpenHouseMapper(_member(resource, OPEN_HOUSE), key, time_zone)
            history = HistoryMapper(entity, self._identifiers)
            return ListingMapper(
                resource, entity, fields=fields, media=self._media, open_houses=open_houses, history=history
            )
        if resource is TEAM:
            return _team_mapper(fields, self._media)
        if resource is AGENT:
            memberships = TeamMemberships(self._dictionary.entities[_TEAMS], self._identifiers)
            return _agent_mapper(entity, fields, self._identifiers, self._media, memberships)
        if resource is OFFICE:
            return _office_mapper(entity, fields, self._identifiers, self._media)
        return lambda context: (fields(context), {})


def _member(resource: Resource, name: str) -> Field:
    return next(field for field in resource.stored if field.name == name)


def _check_key(field: str, key: str, source: dict[str, object]) -> None:
    """Raise InvalidRecordError for a record whose key field differs from the key it was found under."""
    if (own_key := key_text(source.get(field))) is None:
        raise InvalidRecordError(field, "is missing")
    if own_key != key:
        raise InvalidRecordError(
            field, f"is {describe_value(own_key)}, but the record was found under {describe_value(key)}"
        )
