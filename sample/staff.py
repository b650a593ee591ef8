"""Everyone whom listings refer to: companies with their offices, teams and agents, sized after the number of listings.

The companies are a parent with children, a large one and independents.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import msgspec
import orjson

from sample.ingredients import (
    DAY,
    HOUR,
    SampleClock,
    blank_record,
    envelope_line,
    format_timestamp,
    load_locations,
    load_names,
    load_table,
    phone,
    pick,
    seeded_random,
    street_address,
    uuid,
    weighted_list,
)


class SampleCompany(msgspec.Struct, frozen=True):
    """A company; `share` is its part of all listings, the shares of all companies sum to 1."""

    key: str
    numeric_id: str
    name: str
    client_company_id: str | None
    parent: str | None
    is_nrt: bool
    share: float

    @property
    def domain(self) -> str:
        """The company's internet domain, within the one reserved for examples."""
        return f"{self.key.replace('_', '-')}.example.com"

    def share_of(self, total: int, least: int) -> int:
        """Return the company's part of `total`, but no less than `least`."""
        return max(least, round(total * self.share))


def load_companies() -> tuple[SampleCompany, ...]:
    """Return all companies, the largest first."""
    return load_table("companies", tuple[SampleCompany, ...])


def company_lines(seed: int, clock: SampleClock) -> Iterator[bytes]:
    """Yield the lines of companies.ndjson; a company is its own scope, so the envelope names none."""
    chance = seeded_random(seed, "companies")
    for company in load_companies():
        parent = {"parent_company_id": company.parent} if company.parent else {}
        envelope = {"updated_at": format_timestamp(clock.earlier(chance)), **parent, "record": _company_record(company)}
        yield orjson.dumps(envelope, option=orjson.OPT_APPEND_NEWLINE)


def _company_record(company: SampleCompany) -> dict[str, object]:
    return blank_record("Company") | {
        "platform_company_id": company.key,
        "name": company.name,
        "numeric_id": company.numeric_id,
        "client_company_id": company.client_company_id,
        "public_partner_attrs": {"is_nrt": company.is_nrt},
    }


_FLOORS = weighted_list({None: 3, "Suite 100": 1, "Floor 2": 1})


@dataclass(frozen=True, slots=True)
class SampleOffice:
    """What agents and listings repeat of their office. `deactivated` is a moment, None while the office is open."""

    company: SampleCompany
    platform_office_id: str
    number: int
    street: str
    zip_code: str
    phone: str
    deactivated: int | None

    @property
    def city(self) -> str:
        return load_locations()[self.zip_code].city

    @property
    def name(self) -> str:
        return f"{self.company.name} - {self.city}"


def _generate_offices(company: SampleCompany, count: int, seed: int, clock: SampleClock) -> list[SampleOffice]:
    """Return `count` offices. The first always stays open; from the third on some are closed, every other lately."""
    chance = seeded_random(seed, f"offices of {company.key}")
    return [_office(company, position, chance, clock) for position in range(count)]


def office_lines(offices: Iterable[SampleOffice], seed: int, clock: SampleClock) -> Iterator[bytes]:
    chance = seeded_random(seed, "office records")
    for office in offices:
        closed = {"deactivated_at": format_timestamp(office.deactivated)} if office.deactivated else {}
        updated = office.deactivated or clock.last_changed(chance)
        yield envelope_line(office.company.key, updated, _office_record(office, chance), closed)


def _office(company: SampleCompany, position: int, chance: Random, clock: SampleClock) -> SampleOffice:
    number = int(company.numeric_id) * 1000 + position
    return SampleOffice(
        company=company,
        platform_office_id=f"{chance.getrandbits(24):06x}-{number}",
        number=number,
        street=street_address(chance),
        zip_code=pick(chance, tuple(load_locations())),
        phone=phone(chance),
        deactivated=_closed_at(position, clock),
    )


def _closed_at(position: int, clock: SampleClock) -> int | None:
    if position % 10 == 2:
        return clock.now - (3 + position % 3) * DAY
    return clock.now - (100 + position) * DAY if position % 10 == 3 else None


def _office_record(office: SampleOffice, chance: Random) -> dict[str, object]:
    company = office.company
    site = f"https://www.{company.domain}"
    return (
        blank_record("Office")
        | _postal(office, chance)
        | {
            "platform_office_id": office.platform_office_id,
            "id": str(office.number),
            "client_office_id": f"GEN-{office.number}" if company.client_company_id else None,
            "image_url": f"https://photos.example.com/offices/{office.number}.jpg",
            "name": office.name,
            "common_name": office.city,
            "email": f"office-{office.number}@{company.domain}",
            "timezone": "America/Los_Angeles",
            "office_website": f"{site}/offices/{office.number}",
            "company_programs": [pick(chance, load_names().programs)] if chance.random() < 0.5 else [],
            "logo_url": f"{site}/logo.png",
        }
    )


def _postal(office: SampleOffice, chance: Random) -> dict[str, object]:
    return {
        "address": office.street,
        "city": office.city,
        "county": "King",
        "state": "WA",
        "zip_code": office.zip_code,
        "alt_phone": phone(chance) if chance.random() < 0.5 else None,
        "phone": office.phone,
        "region": "Puget Sound",
        "mailing_address": office.street,
        "mailing_address2": pick(chance, _FLOORS),
        "mailing_city": office.city,
        "mailing_zip": office.zip_code,
        "mailing_state": "WA",
    }


@dataclass(frozen=True, slots=True)
class SampleTeam:
    """What agents repeat of their team."""

    office: SampleOffice
    uuid: str
    name: str
    number: int
    active: bool


def _generate_teams(offices: list[SampleOffice], count: int, seed: int) -> list[SampleTeam]:
    """Return `count` teams of the company of `offices`; every fourth is inactive."""
    company = offices[0].company
    chance = seeded_random(seed, f"teams of {company.key}")
    return [_team(pick(chance, offices), position, chance) for position in range(count)]


def team_lines(teams: Iterable[SampleTeam], seed: int, clock: SampleClock) -> Iterator[bytes]:
    chance = seeded_random(seed, "team records")
    for team in teams:
        yield envelope_line(team.office.company.key, clock.last_changed(chance), _team_record(team, chance))


def _team(office: SampleOffice, position: int, chance: Random) -> SampleTeam:
    words = load_names().teams
    called = f"{words[position % len(words)]} Team {position + 1}"
    return SampleTeam(office, uuid(chance), called, position + 1, active=position % 4 != 3)


def _team_record(team: SampleTeam, chance: Random) -> dict[str, object]:
    office = team.office
    domain = office.company.domain
    mailbox = f"team-{team.number}"
    return blank_record("Team") | {
        "uuid": team.uuid,
        "name": team.name,
        "email": f"{mailbox}@{domain}",
        "alt_email": f"{mailbox}@teams.example.org" if chance.random() < 0.5 else None,
        "address1": office.street,
        "city": load_locations()[office.zip_code].city,
        "zipcode": office.zip_code,
        "state": "WA",
        "phone": phone(chance),
        "alt_phone": office.phone,
        "logo_url": f"https://www.{domain}/{mailbox}/logo.png",
        "photo_url": f"https://photos.example.com/teams/{team.uuid}.jpg",
        "website_url": f"https://www.{domain}/{mailbox}",
        "description": f"A generated team of {office.company.name}." if team.number % 2 else "",
        "active": team.active,
    }


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


def _generate_agents(
    offices: Sequence[SampleOffice], teams: Sequence[SampleTeam], count: int, seed: int, clock: SampleClock
) -> list[SampleAgent]:
    """Return `count` agents of the company of `offices`; of 16 one was deactivated lately and one long ago."""
    chance = seeded_random(seed, f"agents of {offices[0].company.key}")
    still_open = [office for office in offices if office.deactivated is None]
    return [
        _agent(position, pick(chance, still_open), _team_of(position, teams), chance, _deactivated_at(position, clock))
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


def _team_of(position: int, teams: Sequence[SampleTeam]) -> SampleTeam | None:
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
        self.companies = [_company_staff(company, listings, seed, clock) for company in load_companies()]
        shares = {number: round(house.company.share * 100) for number, house in enumerate(self.companies)}
        self._weighted = [self.companies[number] for number in weighted_list(shares)]

    @property
    def offices(self) -> list[SampleOffice]:
        return [office for house in self.companies for office in house.offices]

    @property
    def teams(self) -> list[SampleTeam]:
        return [team for house in self.companies for team in house.teams]

    @property
    def agents(self) -> list[SampleAgent]:
        return [agent for house in self.companies for agent in house.agents]

    def company_for(self, position: int, chance: Random) -> CompanyStaff:
        """Return the house of the record at `position`: the first records go round, so that no house is empty."""
        return self.companies[position] if self.is_first_of_company(position) else self.random_company(chance)

    def random_company(self, chance: Random) -> CompanyStaff:
        """Return a house as its share says."""
        return pick(chance, self._weighted)

    def is_first_of_company(self, position: int) -> bool:
        return position < len(self.companies)


def _company_staff(company: SampleCompany, listings: int, seed: int, clock: SampleClock) -> CompanyStaff:
    offices = _generate_offices(company, company.share_of(max(12, listings // 2000), 1), seed, clock)
    teams = _generate_teams(offices, company.share_of(min(200, max(12, listings // 1000)), 1), seed)
    agents = _generate_agents(offices, teams, company.share_of(max(40, listings // 200), 2), seed, clock)
    return CompanyStaff(company, offices, teams, agents, [agent for agent in agents if agent.deactivated is None])
