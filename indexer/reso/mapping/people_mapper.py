"""Mapping of members to agents, offices to offices, and teams to teams."""

from indexer.errors import InvalidRecordError
from indexer.reso.mapping.converters import limit_searchable, to_boolean, to_text
from indexer.reso.mapping.date_times import to_timestamp, to_unix_seconds
from indexer.reso.mapping.field_mapper import FieldMapper, FirstValue
from indexer.reso.mapping.identifiers import IdentifierFactory
from indexer.reso.mapping.listing_images import PHOTO_CATEGORIES
from indexer.reso.mapping.mapping_context import MappingContext, RecordAndEnvelope
from indexer.reso.mapping.media_items import first_of_category
from indexer.reso.mapping.shared_mappers import SharedMappers
from mappings.data_dictionary.model import MODIFICATION_TIMESTAMP, DictionaryEntity


class DeactivationRule:
    """Determines since when a record is inactive."""

    def __init__(self, entity: DictionaryEntity, identifiers: IdentifierFactory) -> None:
        """Compile the flag of inactive records; an entity without a declared one has none."""
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


class AgentMapper:
    """Maps the records of agents."""

    def __init__(
        self, entity: DictionaryEntity, fields: FieldMapper, identifiers: IdentifierFactory, shared: SharedMappers
    ) -> None:
        """Compile what the dictionary declares in addition to the fields."""
        self._fields = fields
        self._source_agent_id = FirstValue(entity.source_agent_id_sources, limit_searchable(to_text), identifiers)
        self._deactivation = DeactivationRule(entity, identifiers)
        self._shared = shared

    def __call__(self, context: MappingContext) -> RecordAndEnvelope:
        """Return record and envelope."""
        record, envelope = self._fields(context), dict[str, object]()
        since = self._deactivation.deactivated_since(context)
        record.setdefault("profile_visible_online", since is None)
        if since is not None:
            record["deactivated_timestamp"], envelope["deactivated_at"] = to_unix_seconds(since), since
        if (identifier := self._source_agent_id(context)) is not None:
            envelope["source_agent_id"] = identifier
        self._add_related(context, record)
        return record, envelope

    def _add_related(self, context: MappingContext, record: dict[str, object]) -> None:
        if (address := record.get("primary_email_address")) is not None:
            record["email_addresses"] = {"primary": address}
        record["teams"] = record.get("teams") or self._shared.memberships.teams_of(context)
        media = self._shared.media_selector.select(context)
        if (photo := first_of_category(media, "agentphoto", "memberphoto", *PHOTO_CATEGORIES)) is not None:
            record.setdefault("profile_image_url", photo.url)
            record.setdefault("profile_thumb_url", photo.url)


class OfficeMapper:
    """Maps the records of offices."""

    def __init__(
        self, entity: DictionaryEntity, fields: FieldMapper, identifiers: IdentifierFactory, shared: SharedMappers
    ) -> None:
        """Compile what the dictionary declares in addition to the fields."""
        self._fields = fields
        self._deactivation = DeactivationRule(entity, identifiers)
        self._media = shared.media_selector

    def __call__(self, context: MappingContext) -> RecordAndEnvelope:
        """Return record and envelope."""
        record = self._fields(context)
        since = self._deactivation.deactivated_since(context)
        media = self._media.select(context)
        if (photo := first_of_category(media, "officephoto", *PHOTO_CATEGORIES)) is not None:
            record.setdefault("image_url", photo.url)
        if (logo := first_of_category(media, "officelogo", "logo")) is not None:
            record.setdefault("logo_url", logo.url)
        return record, {} if since is None else {"deactivated_at": since}


class TeamMapper:
    """Maps the records of teams."""

    def __init__(self, fields: FieldMapper, shared: SharedMappers) -> None:
        """Take the mappers of fields and media."""
        self._fields = fields
        self._media = shared.media_selector

    def __call__(self, context: MappingContext) -> RecordAndEnvelope:
        """Return record and envelope; a team is active unless its fields say otherwise."""
        record = {"active": True, **self._fields(context)}
        media = self._media.select(context)
        if (logo := first_of_category(media, "teamlogo", "logo", "officelogo")) is not None:
            record.setdefault("logo_url", logo.url)
        if (photo := first_of_category(media, "teamphoto", *PHOTO_CATEGORIES)) is not None:
            record.setdefault("photo_url", photo.url)
        return record, {}
