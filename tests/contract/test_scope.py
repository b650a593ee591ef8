"""No parameter reaches a record outside the key's scope; the rules of `parent_company_id`."""

from typing import Any

import pytest

from tests.contract.world import IDENTIFIERS, PARENT, Envelope, Reply, World, response_identifiers, source_identifiers

SINCE: dict[str, Any] = {"updated_since": 1, "page_size": 1000}

# What each key may read; the parent's own records belong to its scope as well.
CHILDREN = ("evergreen-realty", "harbor-lane-homes", "rainier-gate", "alder_and_fern")
READABLE = {
    "large": ("summit-crest",),
    "child": ("evergreen-realty",),
    "parent": (PARENT, *CHILDREN),
    "two": ("tidewater-brokers", "orchard-street"),
}
# How each show can be narrowed; the contract gives `parent_company_id` to some of them only.
WITH_COMPANY = ("listings", "sold_listings", "agents", "offices", "teams")
WITH_PARENT = ("listings", "agents", "offices")


def _one_of_each_company(world: World, resource: str) -> list[Envelope]:
    found: dict[str, Envelope] = {}
    for envelope in world.of(resource):
        found.setdefault(world.company(envelope), envelope)
    return list(found.values())


@pytest.mark.parametrize("key", READABLE)
@pytest.mark.parametrize("resource", IDENTIFIERS)
async def test_a_show_answers_own_records_and_hides_foreign_ones(world: World, key: str, resource: str) -> None:
    for envelope in _one_of_each_company(world, resource):
        identifier = envelope["record"][IDENTIFIERS[resource]]
        reply = await world.get(f"/{resource}/{identifier}", key)
        unknown = await world.get(f"/{resource}/unknown", key)
        if world.company(envelope) in READABLE[key]:
            assert reply.status == 200
        else:
            assert _text(reply, identifier) == _text(unknown, "unknown")


def _text(reply: Reply, identifier: str) -> tuple[int, str]:
    """Return what a problem says, without the requested identifier."""
    return reply.status, str(reply.body["detail"]).replace(identifier, "…")


@pytest.mark.parametrize("key", READABLE)
@pytest.mark.parametrize("resource", WITH_COMPANY)
async def test_naming_another_company_never_widens_a_show(world: World, key: str, resource: str) -> None:
    for envelope in _one_of_each_company(world, resource):
        owner, path = world.company(envelope), f"/{resource}/{envelope['record'][IDENTIFIERS[resource]]}"
        for company in (owner, world.numeric(owner)):
            reply = await world.get(path, key, platform_company_id=company)
            assert reply.status == (200 if owner in READABLE[key] else 403)
        for own in READABLE[key]:
            reply = await world.get(path, key, platform_company_id=own)
            assert reply.status == (200 if owner == own else 404)


@pytest.mark.parametrize("key", [*READABLE, "all"])
@pytest.mark.parametrize("resource", WITH_PARENT)
async def test_a_parent_never_widens_a_show(world: World, key: str, resource: str) -> None:
    allowed = key in {"parent", "all"}
    for envelope in _one_of_each_company(world, resource):
        path = f"/{resource}/{envelope['record'][IDENTIFIERS[resource]]}"
        reply = await world.get(path, key, parent_company_id=PARENT)
        within = world.company(envelope) in CHILDREN
        assert reply.status == ((200 if within else 404) if allowed else 403)


@pytest.mark.parametrize("key", READABLE)
async def test_indexes_without_a_company_hold_exactly_what_the_key_may_read(world: World, key: str) -> None:
    mine = READABLE[key]
    sold = await world.walk("/sold_listings", key, **SINCE)
    assert response_identifiers(sold) == source_identifiers(world.of("sold_listings", *mine))
    agents = await world.answer("/agents", key, deactivated="false", **SINCE)
    active = world.of("agents", *mine, where=lambda e: e.get("deactivated_at") is None)
    assert response_identifiers(agents, "agent_uuid") == source_identifiers(active, "agent_uuid")
    offices = await world.get("/offices", key, page_size=1000)
    active = world.of("offices", *mine, where=lambda e: e.get("deactivated_at") is None)
    assert response_identifiers(offices.body["offices"], "platform_office_id") == source_identifiers(
        active, "platform_office_id"
    )
    assert int(offices.headers["X-Total-Count"]) == len(active)
    assert response_identifiers(await world.answer("/teams", key), "uuid") == source_identifiers(
        world.of("teams", *mine), "uuid"
    )
    companies = await world.answer("/companies", key)
    assert response_identifiers(companies, "platform_company_id") == sorted(mine)


@pytest.mark.parametrize("key", READABLE)
@pytest.mark.parametrize("path", ["/listings", "/sold_listings", "/agents", "/offices", "/teams"])
async def test_an_index_of_a_foreign_company_is_refused_like_an_unknown_one(world: World, key: str, path: str) -> None:
    unknown = await world.get(path, key, platform_company_id="unknown")
    assert unknown.status == 403
    for envelope in world.of("companies"):
        company = world.company(envelope)
        for form in (company, world.numeric(company)):
            reply = await world.get(path, key, platform_company_id=form)
            if company in READABLE[key]:
                assert reply.status == 200
            else:
                assert _text(reply, form) == _text(unknown, "unknown")


@pytest.mark.parametrize("key", READABLE)
@pytest.mark.parametrize("path", ["/listings", "/sold_listings"])
async def test_a_foreign_agent_or_office_reference_reads_like_an_unknown_one(world: World, key: str, path: str) -> None:
    own = READABLE[key][-1]
    for agent in _one_of_each_company(world, "agents"):
        if world.company(agent) == own:
            continue
        for parameter, value in _references(agent).items():
            reply = await world.get(path, key, platform_company_id=own, **{parameter: value})
            unknown = await world.get(path, key, platform_company_id=own, **{parameter: "unknown"})
            assert _text(reply, value) == _text(unknown, "unknown")
            assert reply.status == 400


def _references(agent: Envelope) -> dict[str, str]:
    return {
        "platform_agent_id": agent["record"]["platform_agent_id"],
        "platform_office_id": agent["record"]["platform_office_id"],
    }


@pytest.mark.parametrize("key", READABLE)
async def test_the_company_in_an_internal_agent_reference_must_be_in_scope(world: World, key: str) -> None:
    own = READABLE[key][-1]
    for agent in _one_of_each_company(world, "agents"):
        reference = f"{world.company(agent)}:{agent['source_agent_id']}"
        reply = await world.get("/listings", key, platform_company_id=own, platform_agent_id=reference, **SINCE)
        assert reply.status == (200 if world.company(agent) == own else 400)


@pytest.mark.parametrize("key", READABLE)
async def test_a_foreign_agent_uuid_gives_no_listing(world: World, key: str) -> None:
    own = READABLE[key][-1]
    for agent in _one_of_each_company(world, "agents"):
        if world.company(agent) != own:
            uuid = agent["record"]["agent_uuid"]
            assert await world.walk("/listings", key, platform_company_id=own, agent_uuid=uuid, **SINCE) == []


@pytest.mark.parametrize("key", READABLE)
async def test_a_cursor_cannot_lead_into_another_company(world: World, key: str) -> None:
    own = READABLE[key][-1]
    for cursor in ("!", "zzzz", f"{own};", "summit-crest:", "../x", "~"):
        page = await world.answer(
            "/listings", key, platform_company_id=own, market_status="all", last_platform_listing_id=cursor, **SINCE
        )
        assert set(response_identifiers(page["Listings"])) <= set(source_identifiers(world.of("listings", own)))


# Rules 1-6 of `parent_company_id`


@pytest.mark.parametrize("form", [PARENT, "4100"])
async def test_rule_1_a_parent_is_named_by_key_or_number(world: World, form: str) -> None:
    walked = await world.walk("/sold_listings", "parent", parent_company_id=form, **SINCE)
    assert response_identifiers(walked) == source_identifiers(world.of("sold_listings", *CHILDREN))


async def test_rule_1_a_company_that_is_not_a_parent_is_refused(world: World) -> None:
    reply = await world.get("/offices", parent_company_id="orchard-street")
    assert (reply.status, reply.parameters) == (400, {"parent_company_id"})


async def test_rule_2_a_parent_widens_the_look_up_of_agents_by_source_agent_id(world: World) -> None:
    counts: dict[str, int] = {}
    for agent in world.of("agents", *CHILDREN):
        counts[agent["source_agent_id"]] = counts.get(agent["source_agent_id"], 0) + 1
    agent = next(a for a in world.of("agents", *CHILDREN) if counts[a["source_agent_id"]] == 1)
    shown = await world.answer(f"/agents/{agent['source_agent_id']}", "parent", parent_company_id=PARENT)
    assert shown["agent_uuid"] == agent["record"]["agent_uuid"]


async def test_rule_3_a_parent_does_not_replace_the_required_company(world: World) -> None:
    reply = await world.get("/listings", "parent", parent_company_id=PARENT)
    assert (reply.status, reply.parameters) == (400, {"platform_company_id"})


async def test_rule_4_a_parent_does_not_broaden_the_scope_of_a_company(world: World) -> None:
    both = {"parent_company_id": PARENT, "platform_company_id": "4102"}
    walked = await world.walk("/sold_listings", "parent", **both, **SINCE)
    assert response_identifiers(walked) == source_identifiers(world.of("sold_listings", "harbor-lane-homes"))


@pytest.mark.parametrize("path", ["/listings", "/sold_listings", "/agents", "/offices"])
async def test_rule_5_with_a_parent_the_company_must_be_numeric(world: World, path: str) -> None:
    by_key = await world.get(path, "parent", parent_company_id=PARENT, platform_company_id="evergreen-realty")
    assert (by_key.status, by_key.parameters) == (400, {"platform_company_id"})
    assert (await world.get(path, "parent", parent_company_id=PARENT, platform_company_id="4101")).status == 200


@pytest.mark.parametrize("key", ["large", "child", "two"])
async def test_rule_6_a_parent_is_for_keys_that_were_given_it(world: World, key: str) -> None:
    refused = await world.get("/offices", key, parent_company_id=PARENT)
    unknown = await world.get("/offices", key, parent_company_id="unknown")
    assert refused.status == 403
    assert _text(refused, PARENT) == _text(unknown, "unknown")


@pytest.mark.parametrize("key", ["parent", "all"])
@pytest.mark.parametrize("company", ["4200", "4300", "4100"])
async def test_a_company_that_is_not_under_the_parent_is_refused_with_it(world: World, key: str, company: str) -> None:
    reply = await world.get("/offices", key, parent_company_id=PARENT, platform_company_id=company)
    readable = key == "all" or company == "4100"
    assert (reply.status, reply.parameters) == (400 if readable else 403, {"platform_company_id"})


@pytest.mark.parametrize("parameter", ["platform_company_id", "parent_company_id"])
async def test_a_key_for_all_learns_that_a_company_is_unknown(world: World, parameter: str) -> None:
    reply = await world.get("/offices", **{parameter: "unknown"})
    assert (reply.status, reply.parameters) == (400, {parameter})


# Every combination of key, parent form and company form. What a company is to the parent decides, not its spelling,
# excluding rule 5: with a parent only the numeric form is accepted.
COMPANIES = {"child": ("evergreen-realty", "4101"), "parent": (PARENT, "4100"), "other": ("orchard-street", "4301")}
FORMS = [(kind, form) for kind, forms in COMPANIES.items() for form in forms] + [("unknown", "unknown"), ("none", None)]


def _expected(key: str, kind: str, form: str | None) -> int:
    """Return the status that the rules give to a request with a parent."""
    if key not in {"parent", "all"}:
        return 403
    if kind == "none":
        return 200
    if kind == "unknown" or (kind == "other" and key == "parent"):
        return 400 if key == "all" else 403
    return 200 if kind == "child" and form is not None and form.isdigit() else 400


@pytest.mark.parametrize("key", ["all", "parent", "child", "large", "two"])
@pytest.mark.parametrize("parent", [PARENT, "4100"])
@pytest.mark.parametrize(("kind", "form"), FORMS)
@pytest.mark.parametrize("path", ["/listings", "/sold_listings", "/agents", "/offices"])
async def test_parent_and_company_combine_by_the_rules(
    world: World, key: str, parent: str, kind: str, form: str | None, path: str
) -> None:
    reply = await world.get(path, key, parent_company_id=parent, platform_company_id=form)
    required_is_missing = path == "/listings" and form is None
    assert reply.status == (400 if required_is_missing else _expected(key, kind, form))
