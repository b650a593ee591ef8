"""Everyone whom listings refer to: offices, teams and agents of all companies, sized after the number of listings."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from sample.sample_agents import SampleAgent, generate_agents
from sample.sample_clock import SampleClock
from sample.sample_companies import SampleCompany, load_companies
from sample.sample_offices import SampleOffice, generate_offices
from sample.sample_teams import SampleTeam, generate_teams
from sample.seeded_random import pick, weighted_list

_SECOND_AGENT_SHARE = 0.12


@dataclass(frozen=True)
class CompanyStaff:
    """One company with its people. `working` are the agents that are not deactivated."""

    company: SampleCompany
    offices: list[SampleOffice]
    teams: list[SampleTeam]
    agents: list[SampleAgent]
    active_agents: list[SampleAgent]

    def listing_agent_fields(self, agents: Sequence[SampleAgent], chance: Random) -> dict[str, object]:
        """Return a listing's members about its agent, one of `agents`, and now and then a second one."""
        agent = pick(chance, agents)
        second = pick(chance, self.active_agents) if chance.random() < _SECOND_AGENT_SHARE else agent
        if second is agent:
            return agent.list_side
        return agent.list_side | {
            "SecondaryListAgentFullName": f"{second.first} {second.last}",
            "SecondaryListAgentUUID": second.uuid,
        }


class SampleStaff:
    """All houses; draws them in proportion to their companies' shares."""

    def __init__(self, listings: int, seed: int, clock: SampleClock) -> None:
        """Assemble the houses that suit this number of listings."""
        self.companies = [_company_staff(company, listings, seed, clock) for company in load_companies()]
        shares = {number: round(house.company.share * 100) for number, house in enumerate(self.companies)}
        self._weighted = [self.companies[number] for number in weighted_list(shares)]

    @property
    def offices(self) -> list[SampleOffice]:
        """All offices, company after company."""
        return [office for house in self.companies for office in house.offices]

    @property
    def teams(self) -> list[SampleTeam]:
        """All teams, company after company."""
        return [team for house in self.companies for team in house.teams]

    @property
    def agents(self) -> list[SampleAgent]:
        """All agents, company after company."""
        return [agent for house in self.companies for agent in house.agents]

    def company_for(self, position: int, chance: Random) -> CompanyStaff:
        """Return the house of the record at `position`: the first records go round, so that no house is empty."""
        return self.companies[position] if self.is_first_of_company(position) else self.random_company(chance)

    def random_company(self, chance: Random) -> CompanyStaff:
        """Return a house as its share says."""
        return pick(chance, self._weighted)

    def is_first_of_company(self, position: int) -> bool:
        """Whether the record at `position` is the first of its house, which always lies in the default window."""
        return position < len(self.companies)


def _company_staff(company: SampleCompany, listings: int, seed: int, clock: SampleClock) -> CompanyStaff:
    offices = generate_offices(company, company.share_of(max(12, listings // 2000), 1), seed, clock)
    teams = generate_teams(offices, company.share_of(min(200, max(12, listings // 1000)), 1), seed)
    agents = generate_agents(offices, teams, company.share_of(max(40, listings // 200), 2), seed, clock)
    return CompanyStaff(company, offices, teams, agents, [agent for agent in agents if agent.deactivated is None])
