"""Agents, offices, teams and companies: parameters, flags and identifiers."""

import time
from typing import Any

import pytest
from yarl import URL

from tests.contract.world import (
    PARENT,
    Envelope,
    World,
    default_window_start,
    response_identifiers,
    source_identifiers,
    unix_time,
    updated_after,
)

COMPANY = "summit-crest"
WIDE: dict[str, Any] = {"updated_since": 1, "page_size": 1000}

INDEX_FLAGS = {
    "include_access_level": ("access_level", "view_level"),
    "include_company_programs": ("company_programs",),
    "include_partners": ("partners",),
    "include_website": ("website_base_url",),
    "include_reviews": ("user_reviews",),
    "include_bio": ("bio",),
}
SHOW_FLAGS = {name: INDEX_FLAGS[name] for name in ("include_access_level", "include_partners", "include_reviews")}


def _in_use(envelope: Envelope) -> bool:
    return envelope.get("deactivated_at") is None


def _deactivated_after(begins: float) -> Any:
    return lambda envelope: not _in_use(envelope) and unix_time(envelope["deactivated_at"]) >= begins


async def test_without_a_window_the_agents_of_the_last_seven_days_are_returned(world: World) -> None:
    recent = updated_after(default_window_start())
    expected = world.of("agents", where=lambda e: recent(e) and _in_use(e))
    assert 0 < len(expected) < len(world.of("agents", where=_in_use))
    assert response_identifiers(await world.answer("/agents", page_size=1000), "agent_uuid") == source_identifiers(
        expected, "agent_uuid"
    )


@pytest.mark.parametrize("days", [1, 40, 300])
async def test_agents_updated_since(world: World, days: int) -> None:
    begins = int(time.time()) - days * 24 * 3600
    recent = updated_after(begins)
    expected = world.of("agents", COMPANY, where=lambda e: recent(e) and _in_use(e))
    answered = await world.answer("/agents", platform_company_id=COMPANY, updated_since=begins, page_size=1000)
    assert response_identifiers(answered, "agent_uuid") == source_identifiers(expected, "agent_uuid")


@pytest.mark.parametrize(
    ("path", "resource", "name"), [("/agents", "agents", "agent_uuid"), ("/offices", "offices", "platform_office_id")]
)
async def test_deactivated_answers_the_deactivated_of_the_window(
    world: World, path: str, resource: str, name: str
) -> None:
    for begins in (None, 1):
        start = default_window_start() if begins is None else begins
        expected = world.of(resource, where=_deactivated_after(start))
        answered = await world.answer(path, deactivated="true", deactivated_since=begins, page_size=1000)
        records = answered["offices"] if resource == "offices" else answered
        assert expected
        assert response_identifiers(records, name) == source_identifiers(expected, name)


async def test_deactivated_agents_are_restricted_by_a_window_of_updates_that_was_sent(world: World) -> None:
    begins = int(time.time())
    assert await world.answer("/agents", deactivated="true", deactivated_since=1, updated_since=begins) == []


async def test_agents_of_an_office(world: World) -> None:
    office = world.of("agents", COMPANY, where=_in_use)[0]["record"]["platform_office_id"]
    expected = world.of("agents", where=lambda e: e["record"]["platform_office_id"] == office and _in_use(e))
    answered = await world.answer("/agents", platform_office_id=office, **WIDE)
    assert response_identifiers(answered, "agent_uuid") == source_identifiers(expected, "agent_uuid")


async def test_agents_of_an_unknown_office_are_refused(world: World) -> None:
    reply = await world.get("/agents", platform_office_id="nowhere")
    assert (reply.status, reply.parameters) == (400, {"platform_office_id"})


async def test_agents_with_company_programs(world: World) -> None:
    expected = world.of("agents", where=lambda e: bool(e["record"]["company_programs"]) and _in_use(e))
    assert expected
    answered = await world.answer("/agents", has_company_programs="true", **WIDE)
    assert response_identifiers(answered, "agent_uuid") == source_identifiers(expected, "agent_uuid")


@pytest.mark.parametrize("flag", [None, *INDEX_FLAGS])
async def test_each_flag_of_the_agents_index_brings_its_fields_alone(world: World, flag: str | None) -> None:
    source = {e["record"]["agent_uuid"]: e["record"] for e in world.of("agents")}
    sent = {} if flag is None else {flag: "true"}
    for record in await world.answer("/agents", **sent, **WIDE):
        for name, fields in INDEX_FLAGS.items():
            for field in fields:
                assert (field in record) is (name == flag)
                assert record.get(field) == (source[record["agent_uuid"]][field] if name == flag else None)


@pytest.mark.parametrize("flag", [None, *SHOW_FLAGS])
async def test_each_flag_of_the_agent_show_brings_its_fields_and_the_rest_is_there(
    world: World, flag: str | None
) -> None:
    source = world.of("agents")[0]["record"]
    sent = {} if flag is None else {flag: "1"}
    shown = await world.answer(f"/agents/{source['agent_uuid']}", **sent)
    hidden = {field for name, fields in SHOW_FLAGS.items() if name != flag for field in fields}
    goals = {"gci_goal", "buyer_commission_rate", "seller_commission_rate"}
    assert shown == {field: value for field, value in source.items() if field not in hidden | goals}


async def test_the_envelope_of_agents_holds_the_array(world: World) -> None:
    plain = await world.get("/agents", page_size=5, page_number=2, updated_since=1)
    wrapped = await world.answer("/agents", page_size=5, page_number=2, updated_since=1, envelope="true")
    assert wrapped == {
        "page_number": 2,
        "total_pages": int(plain.headers["X-Total-Pages"]),
        "agents": plain.body,
    }


async def test_agents_link_to_first_previous_next_and_last(world: World) -> None:
    async with world.http.get(
        "/v1/agents?page_size=5&page_number=2&updated_since=1", headers={"x-api-key": world.keys["all"]}
    ) as response:
        numbers = {name: URL(link["url"]).query["page_number"] for name, link in response.links.items()}
        total = response.headers["X-Total-Pages"]
    assert numbers == {"first": "1", "prev": "1", "next": "3", "last": total}


async def test_an_agent_is_found_by_each_identifier(world: World) -> None:
    agent = world.of("agents", COMPANY)[0]
    shown = await world.answer(f"/agents/{agent['record']['agent_uuid']}")
    assert shown["agent_uuid"] == agent["record"]["agent_uuid"]
    assert await world.answer(f"/agents/{agent['record']['agent_uuid'].upper()}") == shown
    assert await world.answer(f"/agents/{agent['record']['platform_agent_id']}") == shown
    assert await world.answer(f"/agents/{agent['source_agent_id']}", platform_company_id=COMPANY) == shown


async def test_a_source_agent_id_is_not_looked_up_without_a_company(world: World) -> None:
    agent = world.of("agents", COMPANY)[0]
    assert (await world.get(f"/agents/{agent['source_agent_id']}")).status == 404


def _shared_source_agent_id(world: World) -> str:
    """Return a `source_agent_id` that two companies under the parent use."""
    seen: dict[str, set[str]] = {}
    for agent in world.of("agents", *world.children()):
        seen.setdefault(agent["source_agent_id"], set()).add(world.company(agent))
    return next(source for source, companies in seen.items() if len(companies) > 1)


async def test_a_source_agent_id_of_several_children_is_refused_under_the_parent(world: World) -> None:
    shared = _shared_source_agent_id(world)
    reply = await world.get(f"/agents/{shared}", "parent", parent_company_id=PARENT)
    assert (reply.status, reply.parameters) == (400, {"guid"})
    one = await world.answer(f"/agents/{shared}", "parent", parent_company_id=PARENT, platform_company_id="4101")
    assert one["company_id"] == 4101


async def test_a_deactivated_agent_is_still_shown(world: World) -> None:
    [agent, *_] = world.of("agents", where=lambda e: not _in_use(e))
    assert await world.answer(f"/agents/{agent['record']['agent_uuid']}")


async def test_timestamps_only_agents(world: World) -> None:
    source = {e["record"]["agent_uuid"]: e for e in world.of("agents")}
    for record in await world.answer("/agents", timestamps_only="true", **WIDE):
        envelope = source[record["agent_uuid"]]
        assert record == {
            "platform_agent_id": envelope["record"]["platform_agent_id"],
            "agent_uuid": envelope["record"]["agent_uuid"],
            "last_updated": int(unix_time(envelope["updated_at"])),
            "modification_timestamp": envelope["record"]["modification_timestamp"],
        }


async def test_timestamps_only_offices(world: World) -> None:
    source = {e["record"]["platform_office_id"]: e for e in world.of("offices")}
    for record in (await world.answer("/offices", timestamps_only="true", page_size=1000))["offices"]:
        envelope = source[record["platform_office_id"]]
        assert record["last_updated"] == int(unix_time(envelope["updated_at"]))
        assert unix_time(record["modification_timestamp"]) == unix_time(envelope["updated_at"])
        assert set(record) == {"platform_office_id", "last_updated", "modification_timestamp"}


async def test_offices_come_in_an_envelope_with_page_numbers(world: World) -> None:
    active = source_identifiers(world.of("offices", where=_in_use), "platform_office_id")
    page = await world.answer("/offices", page_size=4, page_number=2)
    assert (page["page_number"], page["total_pages"]) == (2, -(-len(active) // 4))
    assert response_identifiers(page["offices"], "platform_office_id") == active[4:8]


async def test_an_office_show_may_repeat_its_identifier(world: World) -> None:
    office = world.of("offices")[0]["record"]
    path = f"/offices/{office['platform_office_id']}"
    assert await world.answer(path, platform_office_id=office["platform_office_id"]) == office
    assert (await world.get(path, platform_office_id="other")).parameters == {"platform_office_id"}


async def test_teams_of_a_company(world: World) -> None:
    answered = await world.answer("/teams", platform_company_id=COMPANY)
    assert answered
    assert response_identifiers(answered, "uuid") == source_identifiers(world.of("teams", COMPANY), "uuid")


async def test_a_team_is_shown_by_its_uuid(world: World) -> None:
    team = world.of("teams", COMPANY)[0]["record"]
    assert await world.answer(f"/teams/{team['uuid']}", platform_company_id=COMPANY) == team


async def test_a_company_is_shown_by_key_or_number(world: World) -> None:
    shown = await world.answer(f"/companies/{COMPANY}")
    assert shown == world.of("companies", COMPANY)[0]["record"]
    assert await world.answer(f"/companies/{world.numeric(COMPANY)}") == shown


@pytest.mark.parametrize("path", ["/agents", "/offices", "/teams", "/companies"])
async def test_an_unknown_record_is_not_found(world: World, path: str) -> None:
    reply = await world.get(f"{path}/unknown")
    assert (reply.status, reply.code) == (404, "not-found")


@pytest.mark.parametrize(
    ("path", "parameter", "value"),
    [
        ("/agents", "page_number", "0"),
        ("/agents", "page_number", "two"),
        ("/agents", "updated_since", "x"),
        ("/agents", "deactivated_since", "-5"),
        ("/agents", "deactivated", "maybe"),
        ("/agents", "include_goals", "1"),
        ("/agents/x", "include_bio", "1"),
        ("/offices", "updated_since", "1"),
        ("/offices", "page_size", "9999"),
        ("/teams", "parent_company_id", "4100"),
        ("/companies", "platform_company_id", "4100"),
        ("/companies/4100", "name", "x"),
    ],
)
async def test_a_bad_or_unknown_parameter_is_refused_by_name(
    world: World, path: str, parameter: str, value: str
) -> None:
    reply = await world.get(path, **{parameter: value})
    assert (reply.status, reply.parameters) == (400, {parameter})


@pytest.mark.parametrize("flag", INDEX_FLAGS)
def test_the_sample_has_something_to_show_for_each_flag(world: World, flag: str) -> None:
    """Without values behind it, a flag that did nothing would pass unseen."""
    for field in INDEX_FLAGS[flag]:
        assert any(envelope["record"][field] for envelope in world.of("agents"))
