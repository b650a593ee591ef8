"""The lines of agents.ndjson: an agent's whole record."""

from collections.abc import Iterable, Iterator
from random import Random

from sample.ingredients import (
    DAY,
    SampleClock,
    between,
    blank_record,
    envelope_line,
    format_timestamp,
    load_names,
    phone,
    pick,
    seeded_random,
)
from sample.staff import SampleAgent

_MLS = {"name": "sample_mls", "display_name": "Sample MLS (generated)", "mls_abbreviation": "SMLS", "agent_id": None}


def agent_lines(agents: Iterable[SampleAgent], seed: int, clock: SampleClock) -> Iterator[bytes]:
    chance = seeded_random(seed, "agent records")
    for agent in agents:
        updated = agent.deactivated or clock.last_changed(chance)
        extras = {"source_agent_id": agent.source_agent_id}
        if agent.deactivated:
            extras["deactivated_at"] = format_timestamp(agent.deactivated)
        yield envelope_line(agent.office.company.key, updated, _record(agent, updated, chance), extras)


def _record(agent: SampleAgent, updated: int, chance: Random) -> dict[str, object]:
    parts = (
        _identity(agent, chance),
        _office(agent),
        _contact(agent, chance),
        _access(chance),
        _timestamps(updated, chance),
    )
    record = blank_record("Agent")
    for part in (*parts, _lists(agent, chance), _goals(chance)):
        record |= part
    if agent.deactivated:
        record |= {"deactivated_timestamp": agent.deactivated // 1000, "profile_visible_online": False}
    return record


def _identity(agent: SampleAgent, chance: Random) -> dict[str, object]:
    photo = f"https://photos.example.com/agents/{agent.uuid}"
    return {
        "platform_agent_id": agent.platform_agent_id,
        "agent_uuid": agent.uuid,
        "uuid": agent.uuid,
        "name": f"{agent.first} {agent.last}",
        "first_name": agent.first,
        "last_name": agent.last,
        "bio": f"A generated profile: {agent.first} shows homes out of {agent.office.name}.",
        "client_id_2": f"C2-{agent.office.company.numeric_id}-{agent.number}",
        "license": f"SAMPLE-{between(chance, 10_000, 99_999)}",
        "mls_name": _MLS["display_name"],
        "mls_abbreviation": _MLS["mls_abbreviation"],
        "available_mls": [_MLS],
        "title": pick(chance, load_names().titles),
        "profile_image_url": f"{photo}.jpg",
        "profile_thumb_url": f"{photo}-thumb.jpg",
        "source_metadata": [{"identifier_source": "sample", "identifier_type": "number", "identifier_key": None}],
    }


def _office(agent: SampleAgent) -> dict[str, object]:
    office, company = agent.office, agent.office.company
    postal = {"street": office.street, "city": office.city, "state": "WA", "zip": office.zip_code}
    return {
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
    }


def _contact(agent: SampleAgent, chance: Random) -> dict[str, object]:
    address = agent.platform_agent_id
    private = f"{agent.first}.{agent.last}@mail.example.org".lower()
    return {
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
        "home_page": f"https://www.{agent.office.company.domain}/agents/{agent.number}",
        "website_base_url": f"https://www.{agent.office.company.domain}",
        "agent_website": {"base_url": None, "bio_page_slug": None},
    }


def _access(chance: Random) -> dict[str, object]:
    return {
        "has_product_access": chance.random() < 0.9,
        "has_engage_access": chance.random() < 0.6,
        "access_level": pick(chance, ("agent", "agent", "agent", "office", "company")),
        "view_level": pick(chance, ("agent", "office")),
        "profile_visible_online": chance.random() < 0.95,
    }


def _timestamps(updated: int, chance: Random) -> dict[str, object]:
    return {
        "created_timestamp": (updated - between(chance, 1, 3000) * DAY) // 1000,
        "last_updated_timestamp": updated // 1000,
        "last_updated": updated // 1000,
        "modification_timestamp": format_timestamp(updated),
    }


def _lists(agent: SampleAgent, chance: Random) -> dict[str, object]:
    company, team = agent.office.company, agent.team
    return {
        "teams": [{"uuid": team.uuid, "name": team.name}] if team else [],
        "service_area_zip_codes": [agent.office.zip_code],
        "partners": [f"{company.key}-title"] if chance.random() < 0.2 else [],
        "company_programs": [pick(chance, load_names().programs)] if chance.random() < 0.3 else [],
        "languages": ["English", *([pick(chance, load_names().languages)] if chance.random() < 0.3 else [])],
        "user_reviews": [_review(chance)] if chance.random() < 0.25 else [],
    }


def _review(chance: Random) -> dict[str, object]:
    return {"rating": between(chance, 3, 5), "text": "A generated review: answered fast and knew the area."}


def _goals(chance: Random) -> dict[str, object]:
    return {
        "gci_goal": between(chance, 8, 60) * 5000,
        "buyer_commission_rate": pick(chance, (2.0, 2.25, 2.5, 2.75)),
        "seller_commission_rate": pick(chance, (2.5, 2.75, 3.0)),
    }
