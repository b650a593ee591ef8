"""The generated teams of a company."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from sample.data_files import blank_record
from sample.envelope_line import envelope_line
from sample.locations import load_locations, load_names
from sample.sample_clock import SampleClock
from sample.sample_offices import SampleOffice
from sample.seeded_random import phone, pick, seeded_random, uuid


@dataclass(frozen=True, slots=True)
class SampleTeam:
    """What agents repeat of their team."""

    office: SampleOffice
    uuid: str
    name: str
    number: int
    active: bool


def generate_teams(offices: list[SampleOffice], count: int, seed: int) -> list[SampleTeam]:
    """Return `count` teams of the company of `offices`; every fourth is inactive."""
    company = offices[0].company
    chance = seeded_random(seed, f"teams of {company.key}")
    return [_team(pick(chance, offices), position, chance) for position in range(count)]


def team_lines(teams: Iterable[SampleTeam], seed: int, clock: SampleClock) -> Iterator[bytes]:
    """Yield the lines of teams.ndjson."""
    chance = seeded_random(seed, "team records")
    for team in teams:
        yield envelope_line(team.office.company.key, clock.last_changed(chance), _record(team, chance))


def _team(office: SampleOffice, position: int, chance: Random) -> SampleTeam:
    words = load_names().teams
    called = f"{words[position % len(words)]} Team {position + 1}"
    return SampleTeam(office, uuid(chance), called, position + 1, active=position % 4 != 3)


def _record(team: SampleTeam, chance: Random) -> dict[str, object]:
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
