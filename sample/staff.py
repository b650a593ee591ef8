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
    between,
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
    chance, offices = seeded_random(seed, f"offices of {company.key}"), list[SampleOffice]()
    for position in range(count):
        number = int(company.numeric_id) * 1000 + position
        identifier, street = f"{chance.getrandbits(24):06x}-{number}", street_address(chance)
        place, telephone = pick(chance, tuple(load_locations())), phone(chance)
        closed = _closed_at(position, clock)
        offices.append(SampleOffice(company, identifier, number, street, place, telephone, closed))
    return offices


def office_lines(offices: Iterable[SampleOffice], seed: int, clock: SampleClock) -> Iterator[bytes]:
    chance = seeded_random(seed, "office records")
    for office in offices:
        closed = {"deactivated_at": format_timestamp(office.deactivated)} if office.deactivated else {}
        updated = office.deactivated or clock.last_changed(chance)
        yield envelope_line(office.company.key, updated, _office_record(office, chance), closed)


def _closed_at(position: int, clock: SampleClock) -> int | None:
    if position % 10 == 2:
        return clock.now - (3 + position % 3) * DAY
    return clock.now - (100 + position) * DAY if position % 10 == 3 else None


def _office_record(office: SampleOffice, chance: Random) -> dict[str, object]:
    company = office.company
    site = f"https://www.{company.domain}"
    return (
        blank_record("Office")
        | {
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
    chance = seeded_random(seed, f"teams of {offices[0].company.key}")
    words, teams = load_names().teams, list[SampleTeam]()
    for position in range(count):
        office, name = pick(chance, offices), f"{words[position % len(words)]} Team {position + 1}"
        teams.append(SampleTeam(office, uuid(chance), name, position + 1, active=position % 4 != 3))
    return teams


def team_lines(teams: Iterable[SampleTeam], seed: int, clock: SampleClock) -> Iterator[bytes]:
    chance = seeded_random(seed, "team records")
    for team in teams:
        yield envelope_line(team.office.company.key, clock.last_changed(chance), _team_record(team, chance))


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
    agents = []
    for position in range(count):
        office, identifier = pick(chance, still_open), uuid(chance)
        first, last = pick(chance, load_names().first), pick(chance, load_names().last)
        list_side: dict[str, object] = {
            "ListOfficeName": office.name,
            "ListAgentFullName": f"{first} {last}",
            "ListAgentUUID": identifier,
            "ListAgentOfficeID": str(office.number),
            "ListAgentPlatformOfficeID": office.platform_office_id,
            "ListOfficeAOR": "Sample Association of Realtors (generated)",
            "ListOfficeAORArea": office.city,
        }
        buyer_side: dict[str, object] = {
            "BuyerAgentFullName": f"{first} {last}",
            "BuyerAgentUUID": identifier,
            "BuyerAgentOfficeName": office.name,
            "BuyerAgentOfficeID": str(office.number),
            "BuyerAgentPlatformOfficeID": office.platform_office_id,
        }
        team = teams[position // 3 % len(teams)] if position % 3 == 0 else None
        names = (identifier, first, last, 1001 + position)
        agents.append(SampleAgent(*names, office, team, _deactivated_at(position, clock), list_side, buyer_side))
    return agents


def _deactivated_at(position: int, clock: SampleClock) -> int | None:
    if position % 16 == 5:
        return clock.now - DAY - position % 5 * DAY - position % 7 * HOUR
    return clock.now - (30 + position % 600) * DAY if position % 16 == 13 else None


_MLS = {"name": "sample_mls", "display_name": "Sample MLS (generated)", "mls_abbreviation": "SMLS", "agent_id": None}


def agent_lines(agents: Iterable[SampleAgent], seed: int, clock: SampleClock) -> Iterator[bytes]:
    chance = seeded_random(seed, "agent records")
    for agent in agents:
        updated = agent.deactivated or clock.last_changed(chance)
        record, extras = _agent_record(agent, updated, chance), {"source_agent_id": agent.source_agent_id}
        if agent.deactivated:
            extras["deactivated_at"] = format_timestamp(agent.deactivated)
            record |= {"deactivated_timestamp": agent.deactivated // 1000, "profile_visible_online": False}
        yield envelope_line(agent.office.company.key, updated, record, extras)


def _agent_record(agent: SampleAgent, updated: int, chance: Random) -> dict[str, object]:
    office, company, team, address = agent.office, agent.office.company, agent.team, agent.platform_agent_id
    photo = f"https://photos.example.com/agents/{agent.uuid}"
    private = f"{agent.first}.{agent.last}@mail.example.org".lower()
    postal = {"street": office.street, "city": office.city, "state": "WA", "zip": office.zip_code}
    return blank_record("Agent") | {
        "platform_agent_id": address,
        "agent_uuid": agent.uuid,
        "uuid": agent.uuid,
        "name": f"{agent.first} {agent.last}",
        "first_name": agent.first,
        "last_name": agent.last,
        "bio": f"A generated profile: {agent.first} shows homes out of {office.name}.",
        "client_id_2": f"C2-{company.numeric_id}-{agent.number}",
        "license": f"SAMPLE-{between(chance, 10_000, 99_999)}",
        "mls_name": _MLS["display_name"],
        "mls_abbreviation": _MLS["mls_abbreviation"],
        "available_mls": [_MLS],
        "title": pick(chance, load_names().titles),
        "profile_image_url": f"{photo}.jpg",
        "profile_thumb_url": f"{photo}-thumb.jpg",
        "source_metadata": [{"identifier_source": "sample", "identifier_type": "number", "identifier_key": None}],
        "platform_office_id": office.platform_office_id,
        "office_id": office.number,
        "office_name": office.name,
        "client_office_id": f"GEN-{office.number}" if company.client_company_id else None,
        "company_id": int(company.numeric_id),
        "client_company_id": company.client_company_id,
        **{f"office_address_{part}": value for part, value in postal.items()},
        **{f"office_mailing_address_{part}": value for part, value in postal.items()},
        "office_phone_number": office.phone,
        "region": "Puget Sound",
        "main_phone_number": phone(chance),
        "primary_email_address": address,
        "secondary_email_address": private,
        "email_addresses": {
            "primary": address,
            "display": address,
            "alternate": private,
            "platform_sync": address,
            "portal": None,
            "lead_routing": None,
        },
        "home_page": f"https://www.{company.domain}/agents/{agent.number}",
        "website_base_url": f"https://www.{company.domain}",
        "agent_website": {"base_url": None, "bio_page_slug": None},
        "has_product_access": chance.random() < 0.9,
        "has_engage_access": chance.random() < 0.6,
        "access_level": pick(chance, ("agent", "agent", "agent", "office", "company")),
        "view_level": pick(chance, ("agent", "office")),
        "profile_visible_online": chance.random() < 0.95,
        "created_timestamp": (updated - between(chance, 1, 3000) * DAY) // 1000,
        "last_updated_timestamp": updated // 1000,
        "last_updated": updated // 1000,
        "modification_timestamp": format_timestamp(updated),
        "teams": [{"uuid": team.uuid, "name": team.name}] if team else [],
        "service_area_zip_codes": [office.zip_code],
        "partners": [f"{company.key}-title"] if chance.random() < 0.2 else [],
        "company_programs": [pick(chance, load_names().programs)] if chance.random() < 0.3 else [],
        "languages": ["English", *([pick(chance, load_names().languages)] if chance.random() < 0.3 else [])],
        "user_reviews": [_review(chance)] if chance.random() < 0.25 else [],
        "gci_goal": between(chance, 8, 60) * 5000,
        "buyer_commission_rate": pick(chance, (2.0, 2.25, 2.5, 2.75)),
        "seller_commission_rate": pick(chance, (2.5, 2.75, 3.0)),
    }


def _review(chance: Random) -> dict[str, object]:
    return {"rating": between(chance, 3, 5), "text": "A generated review: answered fast and knew the area."}


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
        self.offices = [office for house in self.companies for office in house.offices]
        self.teams = [team for house in self.companies for team in house.teams]
        self.agents = [agent for house in self.companies for agent in house.agents]
        shares = {number: round(house.company.share * 100) for number, house in enumerate(self.companies)}
        self._weighted = [self.companies[number] for number in weighted_list(shares)]

    def company_for(self, position: int, chance: Random) -> CompanyStaff:
        """Return the house of the record at `position`: the first records go round, so that no house is empty."""
        return self.companies[position] if self.is_first_of_company(position) else self.random_company(chance)

    def random_company(self, chance: Random) -> CompanyStaff:
        return pick(chance, self._weighted)

    def is_first_of_company(self, position: int) -> bool:
        return position < len(self.companies)


def _company_staff(company: SampleCompany, listings: int, seed: int, clock: SampleClock) -> CompanyStaff:
    offices = _generate_offices(company, company.share_of(max(12, listings // 2000), 1), seed, clock)
    teams = _generate_teams(offices, company.share_of(min(200, max(12, listings // 1000)), 1), seed)
    agents = _generate_agents(offices, teams, company.share_of(max(40, listings // 200), 2), seed, clock)
    return CompanyStaff(company, offices, teams, agents, [agent for agent in agents if agent.deactivated is None])
