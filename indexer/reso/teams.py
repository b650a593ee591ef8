"""The teams that an agent belongs to, and the records of the teams themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indexer.reso.fields import OneOf
from indexer.reso.identifiers import key_text
from indexer.reso.images import PHOTO
from indexer.reso.media import of_category
from indexer.reso.values import text

if TYPE_CHECKING:
    from indexer.reso.fields import Fields
    from indexer.reso.identifiers import Identifiers
    from indexer.reso.parts import Parts
    from indexer.reso.reading import Reading
    from mappings.dictionary import Entity

    Made = tuple[dict[str, object], dict[str, object]]

_MEMBERS = "TeamMembers"
_TEAMS = "Teams"


class Memberships:
    """Finds the teams of agents."""

    def __init__(self, team: Entity, identifiers: Identifiers) -> None:
        """Compile what a team is called."""
        self._name = OneOf(team.values("name"), text, identifiers)
        self._uuid = identifiers.uuid

    def of(self, reading: Reading) -> list[dict[str, object]]:
        """Return the teams of an agent, ordered by UUID; a team that is not there is left away."""
        found = (self._team(reading, part) for part in reading.parts(_MEMBERS))
        by_uuid: dict[str, dict[str, object]] = {}
        for team in found:
            if team is not None:
                by_uuid.setdefault(str(team["uuid"]), team)
        return [by_uuid[uuid] for uuid in sorted(by_uuid)]

    def _team(self, reading: Reading, part: dict[str, Any]) -> dict[str, object] | None:
        key = key_text(part.get("TeamKey"))
        if key is None or not (team := reading.other(_TEAMS, key)):
            return None
        category = reading.take(f"{_MEMBERS}.TeamMemberType", text, part.get("TeamMemberType"))
        name = self._name(reading.of(_TEAMS, key, team))
        return {"name": name, "uuid": self._uuid(key), "member_category": category}


class Teams:
    """Makes the records of teams."""

    def __init__(self, fields: Fields, parts: Parts) -> None:
        """Keep what they are made with."""
        self._fields = fields
        self._media = parts.media

    def __call__(self, reading: Reading) -> Made:
        """Return record and envelope; a team of which nothing else is said is active."""
        record = {"active": True, **self._fields(reading)}
        media = self._media.of(reading)
        if (logo := of_category(media, "teamlogo", "logo", "officelogo")) is not None:
            record.setdefault("logo_url", logo.url)
        if (photo := of_category(media, "teamphoto", *PHOTO)) is not None:
            record.setdefault("photo_url", photo.url)
        return record, {}
