"""Mappers that several resources share, among them the teams of an agent."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from indexer.reso.mapping.converters import to_text
from indexer.reso.mapping.field_mapper import FirstValue
from indexer.reso.mapping.identifiers import IdentifierFactory, key_text
from indexer.reso.mapping.mapping_context import MappingContext
from indexer.reso.mapping.media_items import MediaSelector
from mappings.data_dictionary.model import DictionaryEntity

_MEMBERS = "TeamMembers"
_TEAMS = "Teams"


@dataclass(frozen=True)
class SharedMappers:
    """Mappers used by several resources; `time_zone` is the default for listings without one."""

    media_selector: MediaSelector
    memberships: TeamMemberships
    open_house_key: str
    time_zone: dt.tzinfo | None


class TeamMemberships:
    """Finds the teams of an agent."""

    def __init__(self, team: DictionaryEntity, identifiers: IdentifierFactory) -> None:
        """Compile the name of a team."""
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
