"""The generated agents of a company, as listings and records repeat them."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from sample.locations import load_names
from sample.sample_clock import DAY, HOUR, SampleClock
from sample.sample_offices import SampleOffice
from sample.sample_teams import SampleTeam
from sample.seeded_random import pick, seeded_random, uuid


@dataclass(frozen=True, slots=True)
class SampleAgent:
    """What listings and sales repeat of their agent. `deactivated` is a moment, None while the agent works."""

    uuid: str
    first: str
    last: str
    number: int
    office: SampleOffice
    team: SampleTeam | None
    deactivated: int | None
    list_side: dict[str, object]
    buyer_side: dict[str, object]

    @property
    def platform_agent_id(self) -> str:
        """The e-mail-like identifier, unique over all companies."""
        return f"{self.first}.{self.last}.{self.number}@{self.office.company.domain}".lower()

    @property
    def source_agent_id(self) -> str:
        """The company's own identifier. The first agent has the same one in every company, all others differ."""
        return "1001" if self.number == 1001 else f"{self.office.company.numeric_id}-{self.number}"


def generate_agents(
    offices: Sequence[SampleOffice], teams: Sequence[SampleTeam], count: int, seed: int, clock: SampleClock
) -> list[SampleAgent]:
    """Return `count` agents of the company of `offices`; of 16 one was deactivated lately and one long ago."""
    chance = seeded_random(seed, f"agents of {offices[0].company.key}")
    still_open = [office for office in offices if office.deactivated is None]
    return [
        _agent(position, pick(chance, still_open), _team(position, teams), chance, _deactivated_at(position, clock))
        for position in range(count)
    ]


def _agent(
    position: int, office: SampleOffice, team: SampleTeam | None, chance: Random, deactivated: int | None
) -> SampleAgent:
    identifier = uuid(chance)
    first, last = pick(chance, load_names().first), pick(chance, load_names().last)
    return SampleAgent(
        uuid=identifier,
        first=first,
        last=last,
        number=1001 + position,
        office=office,
        team=team,
        deactivated=deactivated,
        list_side=_list_side(f"{first} {last}", identifier, office),
        buyer_side=_buyer_side(f"{first} {last}", identifier, office),
    )


def _deactivated_at(position: int, clock: SampleClock) -> int | None:
    if position % 16 == 5:
        return clock.now - DAY - position % 5 * DAY - position % 7 * HOUR
    return clock.now - (30 + position % 600) * DAY if position % 16 == 13 else None


def _team(position: int, teams: Sequence[SampleTeam]) -> SampleTeam | None:
    return teams[position // 3 % len(teams)] if position % 3 == 0 else None


def _list_side(name: str, identifier: str, office: SampleOffice) -> dict[str, object]:
    return {
        "ListOfficeName": office.name,
        "ListAgentFullName": name,
        "ListAgentUUID": identifier,
        "ListAgentOfficeID": str(office.number),
        "ListAgentPlatformOfficeID": office.platform_office_id,
        "ListOfficeAOR": "Sample Association of Realtors (generated)",
        "ListOfficeAORArea": office.city,
    }


def _buyer_side(name: str, identifier: str, office: SampleOffice) -> dict[str, object]:
    return {
        "BuyerAgentFullName": name,
        "BuyerAgentUUID": identifier,
        "BuyerAgentOfficeName": office.name,
        "BuyerAgentOfficeID": str(office.number),
        "BuyerAgentPlatformOfficeID": office.platform_office_id,
    }
