"""From a Member to an agent, from an Office to an office: who is gone is kept, with the time since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.errors import ItemError
from indexer.reso.fields import OneOf
from indexer.reso.images import PHOTO
from indexer.reso.media import of_category
from indexer.reso.moments import moment, unix
from indexer.reso.values import boolean, searched, text
from mappings.dictionary import MODIFIED

if TYPE_CHECKING:
    from indexer.reso.fields import Fields
    from indexer.reso.identifiers import Identifiers
    from indexer.reso.parts import Parts
    from indexer.reso.reading import Reading
    from mappings.dictionary import Entity

    Made = tuple[dict[str, object], dict[str, object]]


class Deactivation:
    """Tells since when a record is inactive."""

    def __init__(self, entity: Entity, identifiers: Identifiers) -> None:
        """Compile what tells an inactive one; an entity of which nothing is declared has none."""
        declared = () if entity.inactive is None else (entity.inactive,)
        self._is_inactive = OneOf(declared, boolean, identifiers)

    def since(self, reading: Reading) -> str | None:
        """Return the moment since which a record is inactive, as far as is known; None for an active one.

        Raise ItemError for an inactive one without it: there is no way to say that it is inactive.
        """
        if self._is_inactive(reading) is not True:
            return None
        found: str | None = reading.take(MODIFIED, moment, reading.record.get(MODIFIED))
        if found is None:
            raise ItemError(MODIFIED, "is missing, and the record is inactive: since when is not known")
        return found


class Agents:
    """Makes the records of agents."""

    def __init__(self, entity: Entity, fields: Fields, identifiers: Identifiers, parts: Parts) -> None:
        """Compile what the dictionary says beside the fields."""
        self._fields = fields
        self._source_agent_id = OneOf(entity.source_agent_ids, searched(text), identifiers)
        self._deactivation = Deactivation(entity, identifiers)
        self._parts = parts

    def __call__(self, reading: Reading) -> Made:
        """Return record and envelope."""
        record, envelope = self._fields(reading), dict[str, object]()
        since = self._deactivation.since(reading)
        record.setdefault("profile_visible_online", since is None)
        if since is not None:
            record["deactivated_timestamp"], envelope["deactivated_at"] = unix(since), since
        if (identifier := self._source_agent_id(reading)) is not None:
            envelope["source_agent_id"] = identifier
        self._complete(reading, record)
        return record, envelope

    def _complete(self, reading: Reading, record: dict[str, object]) -> None:
        if (address := record.get("primary_email_address")) is not None:
            record["email_addresses"] = {"primary": address}
        record["teams"] = record.get("teams") or self._parts.memberships.of(reading)
        if (photo := of_category(self._parts.media.of(reading), "agentphoto", "memberphoto", *PHOTO)) is not None:
            record.setdefault("profile_image_url", photo.url)
            record.setdefault("profile_thumb_url", photo.url)


class Offices:
    """Makes the records of offices."""

    def __init__(self, entity: Entity, fields: Fields, identifiers: Identifiers, parts: Parts) -> None:
        """Compile what the dictionary says beside the fields."""
        self._fields = fields
        self._deactivation = Deactivation(entity, identifiers)
        self._media = parts.media

    def __call__(self, reading: Reading) -> Made:
        """Return record and envelope."""
        record = self._fields(reading)
        since = self._deactivation.since(reading)
        media = self._media.of(reading)
        if (photo := of_category(media, "officephoto", *PHOTO)) is not None:
            record.setdefault("image_url", photo.url)
        if (logo := of_category(media, "officelogo", "logo")) is not None:
            record.setdefault("logo_url", logo.url)
        return record, {} if since is None else {"deactivated_at": since}
