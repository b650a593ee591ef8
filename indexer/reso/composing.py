"""From the records of a source to the records that are served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.errors import ItemError
from indexer.reso.fields import Fields
from indexer.reso.identifiers import Identifiers, key_text
from indexer.reso.left_out import shown
from indexer.reso.listings import Listings
from indexer.reso.media import MEDIA, Media
from indexer.reso.open_houses import OPEN_HOUSE
from indexer.reso.parts import Parts
from indexer.reso.people import Agents, Offices
from indexer.reso.reading import Reading, Records
from indexer.reso.teams import Memberships, Teams
from indexer.reso.time_zones import time_zone as named_zone
from mappings import AGENT, LISTING, RESOURCES, SOLD_LISTING, TEAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from mappings import Resource
    from mappings.dictionary import Dictionary, Entity

    Make = Callable[[Reading], tuple[dict[str, object], dict[str, object]] | None]

__all__ = ["Composed", "Composer", "Records"]


@dataclass(frozen=True)
class Composed:
    """A record of ours by our field names, what its envelope says beside it, and what of the source is in neither.

    `left_out` are fields of the Data Dictionary, those of other entities as `Media.ImageWidth`, each with the reason.
    """

    record: dict[str, object]
    envelope: dict[str, object]
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Form:
    """How the records of one resource are made."""

    entity: str
    key: str
    identifier: str
    identify: Callable[[str], str]
    make: Make


class Composer:
    """Makes records of ours of those of a source; everything that follows from the dictionary is worked out once."""

    def __init__(
        self, dictionary: Dictionary, records: Records, prefix: str = "", time_zone: str | None = None
    ) -> None:
        """Compile the dictionary. `prefix` goes before every key that an identifier is made of.

        `time_zone` is where listings are that do not say it. Raise ValueError for one that nobody knows.
        """
        if time_zone is not None and named_zone(time_zone) is None:
            raise ValueError(f"{time_zone!r} is no time zone: give a name such as America/Los_Angeles")
        self._records = records
        self._identifiers = Identifiers(prefix)
        self._dictionary = dictionary
        entities = dictionary.entities
        self._parts = Parts(
            media=Media(entities[MEDIA], self._identifiers),
            memberships=Memberships(entities["Teams"], self._identifiers),
            open_house_key=entities[OPEN_HOUSE].key,
            time_zone=None if time_zone is None else named_zone(time_zone),
        )
        served = {alias for entity in entities.values() for alias in entity.aliases}
        self._forms = {resource.alias: self._form(resource) for resource in RESOURCES if resource.alias in served}

    def identifier(self, alias: str, key: str) -> str:
        """Return the identifier of the record of a resource that is made of the source's record with a key.

        Raise ItemError for a key of which none can be made.
        """
        form = self._forms[alias]
        try:
            return form.identify(key)
        except ItemError as error:
            raise ItemError(form.key, error.reason) from None

    def compose(self, alias: str, key: str) -> Composed | None:
        """Return the record of a resource that is made of the source's record with a key.

        None for what is not served as this resource: there is no such record, its status is one of those that are not
        served, or the listing is sold and was not asked for as such, or the other way round. Raise ItemError, with the
        field of the Data Dictionary, for a record that cannot be served.
        """
        form = self._forms[alias]
        if (source := self._records.record(form.entity, key)) is None:
            return None
        reading = Reading(self._records, form.entity, key, source)
        if (made := form.make(reading)) is None:
            return None
        _check_key(form.key, key, source)
        record, envelope = made
        record[form.identifier] = self.identifier(alias, key)
        return Composed(record, envelope, tuple(reading.left_out))

    def _form(self, resource: Resource) -> _Form:
        name = self._dictionary.entity_of(resource.alias)
        entity = self._dictionary.entities[name]
        [identifier] = entity.values(resource.identifier)
        identify = self._identifiers.uuid if identifier.uuid is not None else self._identifiers.plain
        return _Form(name, entity.key, resource.identifier, identify, self._make(resource, entity))

    def _make(self, resource: Resource, entity: Entity) -> Make:
        fields = Fields(resource, entity, self._identifiers)
        if resource in {LISTING, SOLD_LISTING}:
            return Listings(resource, entity, fields, self._parts)
        if resource is TEAM:
            return Teams(fields, self._parts)
        people = Agents if resource is AGENT else Offices
        return people(entity, fields, self._identifiers, self._parts)


def _check_key(field: str, key: str, source: dict[str, object]) -> None:
    """Raise ItemError for a record that does not have the key under which it was found."""
    if (own := key_text(source.get(field))) is None:
        raise ItemError(field, "is missing")
    if own != key:
        raise ItemError(field, f"is {shown(own)}, but the record was found under {shown(key)}")
