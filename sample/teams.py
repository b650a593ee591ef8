"""The generated teams of a company."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sample.dice import dice, phone, pick, uuid
from sample.envelope import line
from sample.places import names, places
from sample.tables import blank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from sample.clock import Clock
    from sample.offices import Office


@dataclass(frozen=True, slots=True)
class Team:
    """What agents repeat of their team."""

    office: Office
    uuid: str
    name: str
    number: int
    active: bool


def form_teams(offices: list[Office], count: int, seed: int) -> list[Team]:
    """Return `count` teams of the company of `offices`; every fourth is inactive."""
    company = offices[0].company
    chance = dice(seed, f"teams of {company.key}")
    return [_team(pick(chance, offices), position, chance) for position in range(count)]


def team_lines(teams: Iterable[Team], seed: int, clock: Clock) -> Iterator[bytes]:
    """Yield the lines of teams.ndjson."""
    chance = dice(seed, "team records")
    for team in teams:
        yield line(team.office.company.key, clock.touched(chance), _record(team, chance))


def _team(office: Office, position: int, chance: Random) -> Team:
    words = names().teams
    called = f"{words[position % len(words)]} Team {position + 1}"
    return Team(office, uuid(chance), called, position + 1, active=position % 4 != 3)


def _record(team: Team, chance: Random) -> dict[str, object]:
    office = team.office
    domain = office.company.domain
    mailbox = f"team-{team.number}"
    return blank("Team") | {
        "uuid": team.uuid,
        "name": team.name,
        "email": f"{mailbox}@{domain}",
        "alt_email": f"{mailbox}@teams.example.org" if chance.random() < 0.5 else None,
        "address1": office.street,
        "city": places()[office.zip_code].city,
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
