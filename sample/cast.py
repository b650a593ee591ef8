"""Everyone whom listings refer to: offices, teams and agents of all companies, sized after the number of listings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sample.agents import Agent, hire
from sample.companies import Company, companies
from sample.dice import pick, wheel
from sample.offices import Office, open_offices
from sample.teams import Team, form_teams

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from sample.clock import Clock

_SECOND_AGENT_SHARE = 0.12


@dataclass(frozen=True)
class House:
    """One company with its people. `working` are the agents that are not deactivated."""

    company: Company
    offices: list[Office]
    teams: list[Team]
    agents: list[Agent]
    working: list[Agent]

    def sellers(self, agents: Sequence[Agent], chance: Random) -> dict[str, object]:
        """Return a listing's members about its agent, one of `agents`, and now and then a second one."""
        agent = pick(chance, agents)
        second = pick(chance, self.working) if chance.random() < _SECOND_AGENT_SHARE else agent
        if second is agent:
            return agent.list_side
        return agent.list_side | {
            "SecondaryListAgentFullName": f"{second.first} {second.last}",
            "SecondaryListAgentUUID": second.uuid,
        }


class Cast:
    """All houses; draws them in proportion to their companies' shares."""

    def __init__(self, listings: int, seed: int, clock: Clock) -> None:
        """Assemble the houses that suit this number of listings."""
        self.houses = [_house(company, listings, seed, clock) for company in companies()]
        shares = {number: round(house.company.share * 100) for number, house in enumerate(self.houses)}
        self._wheel = [self.houses[number] for number in wheel(shares)]

    @property
    def offices(self) -> list[Office]:
        """All offices, company after company."""
        return [office for house in self.houses for office in house.offices]

    @property
    def teams(self) -> list[Team]:
        """All teams, company after company."""
        return [team for house in self.houses for team in house.teams]

    @property
    def agents(self) -> list[Agent]:
        """All agents, company after company."""
        return [agent for house in self.houses for agent in house.agents]

    def house(self, position: int, chance: Random) -> House:
        """Return the house of the record at `position`: the first records go round, so that no house is empty."""
        return self.houses[position] if self.is_first(position) else self.any_house(chance)

    def any_house(self, chance: Random) -> House:
        """Return a house as its share says."""
        return pick(chance, self._wheel)

    def is_first(self, position: int) -> bool:
        """Whether the record at `position` is the first of its house, which always lies in the default window."""
        return position < len(self.houses)


def _house(company: Company, listings: int, seed: int, clock: Clock) -> House:
    offices = open_offices(company, company.portion(max(12, listings // 2000), 1), seed, clock)
    teams = form_teams(offices, company.portion(min(200, max(12, listings // 1000)), 1), seed)
    agents = hire(offices, teams, company.portion(max(40, listings // 200), 2), seed, clock)
    return House(company, offices, teams, agents, [agent for agent in agents if agent.deactivated is None])
