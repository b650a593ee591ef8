"""References to agents: the order of precedence under a parent of many companies, and several faults at once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mappings import AGENT, COMPANY, LISTING, OFFICE, SOLD_LISTING
from service.keys.store import KeyGrant
from tests.contract.conftest import open_world
from tests.contract.world import World
from tests.records import COMPANY_KEY, envelope, write

# More companies than the matches that a look-up reads.
CHILDREN = [f"child-{number:02}" for number in range(15)]
SHARED = "1001"
# Sorts behind all others.
NAMED = "ffffffff-5f0d-4f35-9d3c-aaaaaaaaaaaa"


def _agents() -> list[dict[str, Any]]:
    """Return an agent of each child with the same `source_agent_id`, and one whose `platform_agent_id` equals it."""
    agents = [
        envelope(
            AGENT,
            {"agent_uuid": f"0b0e6d3c-5f0d-4f35-9d3c-0000000000{number:02}", "platform_agent_id": f"a{number}@x.org"},
            source_agent_id=SHARED,
            platform_company_id=child,
        )
        for number, child in enumerate(CHILDREN)
    ]
    named = {"agent_uuid": NAMED, "platform_agent_id": SHARED}
    return [*agents, envelope(AGENT, named, source_agent_id="7", platform_company_id=CHILDREN[0])]


@pytest.fixture(scope="module")
async def family(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The service over a parent of many companies, whose agents share an identifier."""
    companies = [
        envelope(COMPANY, {"platform_company_id": child, "numeric_id": str(number)}, parent_company_id=COMPANY_KEY)
        for number, child in enumerate(CHILDREN, 4200)
    ]
    lines = {
        COMPANY: [envelope(COMPANY), *companies],
        AGENT: _agents(),
        OFFICE: [envelope(OFFICE)],
        LISTING: [envelope(LISTING)],
        SOLD_LISTING: [envelope(SOLD_LISTING)],
    }
    source: Path = write(tmp_path_factory.mktemp("family") / "source", lines)
    async with open_world(engine_url, source, {"all": KeyGrant("all", all_companies=True, rate=None)}) as opened:
        yield opened


async def test_a_platform_agent_id_precedes_any_number_of_source_agent_ids(family: World) -> None:
    shown = await family.answer(f"/agents/{SHARED}", parent_company_id=COMPANY_KEY)
    assert shown["agent_uuid"] == NAMED


async def test_a_source_agent_id_of_several_companies_is_refused(family: World) -> None:
    reply = await family.get("/sold_listings", parent_company_id=COMPANY_KEY, source_agent_id=SHARED)
    assert (reply.status, reply.parameters) == (400, {"source_agent_id"})
    shown = await family.answer(f"/agents/{SHARED}", platform_company_id=CHILDREN[1])
    assert shown["platform_agent_id"] == "a1@x.org"


async def test_all_references_that_do_not_exist_are_reported_at_once(family: World) -> None:
    sent = dict.fromkeys(("platform_agent_id", "source_agent_id", "platform_office_id"), "nobody")
    reply = await family.get("/listings", platform_company_id=COMPANY_KEY, **sent)
    assert (reply.status, reply.parameters) == (400, {*sent})
