"""Mapping of source records to the records that the API serves."""

from collections.abc import Callable
from dataclasses import dataclass

from indexer.errors import InvalidRecordError
from indexer.reso.mapping.date_times import find_time_zone
from indexer.reso.mapping.field_mapper import FieldMapper
from indexer.reso.mapping.identifiers import IdentifierFactory, key_text
from indexer.reso.mapping.listing_mapper import ListingMapper
from indexer.reso.mapping.mapping_context import MappingContext, RecordAndEnvelope, SourceRecords
from indexer.reso.mapping.media_items import MEDIA_ENTITY, MediaSelector
from indexer.reso.mapping.open_house_mapper import OPEN_HOUSE
from indexer.reso.mapping.people_mapper import AgentMapper, OfficeMapper, TeamMapper
from indexer.reso.mapping.shared_mappers import SharedMappers, TeamMemberships
from indexer.reso.mapping.source_values import describe_value
from mappings import AGENT, LISTING, OFFICE, RESOURCES, SOLD_LISTING, TEAM, Resource
from mappings.data_dictionary.model import DataDictionary, DictionaryEntity

MapRecord = Callable[[MappingContext], RecordAndEnvelope | None]


@dataclass(frozen=True)
class MappedRecord:
    """A record by our field names, additional envelope fields, and the source values in neither.

    `omitted` are pairs of a Data Dictionary field (of another entity: `Media.ImageWidth`) and a reason.
    """

    record: dict[str, object]
    envelope: dict[str, object]
    omitted: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _ResourceMapping:
    """The compiled mapping of one resource."""

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
        self._shared = SharedMappers(
            media_selector=MediaSelector(entities[MEDIA_ENTITY], self._identifiers),
            memberships=TeamMemberships(entities["Teams"], self._identifiers),
            open_house_key=entities[OPEN_HOUSE].key,
            time_zone=zone,
        )
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
        return MappedRecord(record, envelope, tuple(context.omitted))

    def _resource_mapping(self, resource: Resource) -> _ResourceMapping:
        name = self._dictionary.entity_for(resource.alias)
        entity = self._dictionary.entities[name]
        [identifier] = entity.sources_for(resource.identifier)
        identify = self._identifiers.uuid if identifier.uuid is not None else self._identifiers.plain
        return _ResourceMapping(name, entity.key, resource.identifier, identify, self._mapper_for(resource, entity))

    def _mapper_for(self, resource: Resource, entity: DictionaryEntity) -> MapRecord:
        fields = FieldMapper(resource, entity, self._identifiers)
        if resource in {LISTING, SOLD_LISTING}:
            return ListingMapper(resource, entity, fields, self._shared)
        if resource is TEAM:
            return TeamMapper(fields, self._shared)
        if resource in {AGENT, OFFICE}:
            mapper = AgentMapper if resource is AGENT else OfficeMapper
            return mapper(entity, fields, self._identifiers, self._shared)
        return lambda context: (fields(context), {})


def _check_key(field: str, key: str, source: dict[str, object]) -> None:
    """Raise InvalidRecordError for a record whose key field differs from the key it was found under."""
    if (own_key := key_text(source.get(field))) is None:
        raise InvalidRecordError(field, "is missing")
    if own_key != key:
        raise InvalidRecordError(
            field, f"is {describe_value(own_key)}, but the record was found under {describe_value(key)}"
        )
