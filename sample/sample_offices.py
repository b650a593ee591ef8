"""The generated offices of a company."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from sample.data_files import blank_record
from sample.envelope_line import envelope_line
from sample.locations import load_locations, load_names, street_address
from sample.sample_clock import DAY, SampleClock, format_timestamp
from sample.sample_companies import SampleCompany
from sample.seeded_random import phone, pick, seeded_random, weighted_list

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
        """The city of the office's zip code."""
        return load_locations()[self.zip_code].city

    @property
    def name(self) -> str:
        """The company's name and the city."""
        return f"{self.company.name} - {self.city}"


def generate_offices(company: SampleCompany, count: int, seed: int, clock: SampleClock) -> list[SampleOffice]:
    """Return `count` offices. The first always stays open; from the third on some are closed, every other lately."""
    chance = seeded_random(seed, f"offices of {company.key}")
    return [_office(company, position, chance, clock) for position in range(count)]


def office_lines(offices: Iterable[SampleOffice], seed: int, clock: SampleClock) -> Iterator[bytes]:
    """Yield the lines of offices.ndjson."""
    chance = seeded_random(seed, "office records")
    for office in offices:
        closed = {"deactivated_at": format_timestamp(office.deactivated)} if office.deactivated else {}
        updated = office.deactivated or clock.last_changed(chance)
        yield envelope_line(office.company.key, updated, _record(office, chance), closed)


def _office(company: SampleCompany, position: int, chance: Random, clock: SampleClock) -> SampleOffice:
    number = int(company.numeric_id) * 1000 + position
    return SampleOffice(
        company=company,
        platform_office_id=f"{chance.getrandbits(24):06x}-{number}",
        number=number,
        street=street_address(chance),
        zip_code=pick(chance, tuple(load_locations())),
        phone=phone(chance),
        deactivated=_deactivated_at(position, clock),
    )


def _deactivated_at(position: int, clock: SampleClock) -> int | None:
    if position % 10 == 2:
        return clock.now - (3 + position % 3) * DAY
    return clock.now - (100 + position) * DAY if position % 10 == 3 else None


def _record(office: SampleOffice, chance: Random) -> dict[str, object]:
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
