"""Names of agents and offices are filled where the source of a listing lacks them, and follow their changes."""

from typing import Any

import pytest

from indexer import rollback
from indexer.source.opener import open_source
from indexer.verify.verification import verify_against_source
from mappings import AGENT, COMPANY, LISTING, OFFICE, SOLD_LISTING, Resource
from tests.indexer.conftest import Bench
from tests.internals import Internals
from tests.records import deletion, envelope, identifier_of

ANN, BOB = identifier_of(AGENT, "ann"), identifier_of(AGENT, "bob")
DAYS = [f"2026-01-0{day}T00:00:00Z" for day in range(1, 10)]
COMPANIES = [
    envelope(COMPANY),
    envelope(COMPANY, {"platform_company_id": "child", "numeric_id": "2"}, parent_company_id="acme"),
]


def nameless(resource: Resource, **given: Any) -> dict[str, Any]:
    """Return what a listing has instead of the names and references of a test record."""
    members = {member: None for name in resource.names for member in (name.member, name.reference)}
    return members | given


def agent(day: int = 1, identifier: str = ANN, company: str = "acme", **given: Any) -> dict[str, Any]:
    record = {"agent_uuid": identifier, "name": None, "first_name": None, "last_name": None, **given}
    return envelope(AGENT, record, updated_at=DAYS[day], platform_company_id=company)


def office(day: int = 1, **given: Any) -> dict[str, Any]:
    return envelope(OFFICE, {"platform_office_id": "o1", **given}, updated_at=DAYS[day])


def listing(day: int = 1, identifier: str = "a", company: str = "acme", **given: Any) -> dict[str, Any]:
    record = {"PlatformListingId": identifier, **nameless(LISTING, ListAgentUUID=ANN), **given}
    return envelope(LISTING, record, updated_at=DAYS[day], platform_company_id=company)


async def start(bench: Bench, *listings: dict[str, Any]) -> None:
    """Load listings of an agent with a name, and the office."""
    lines = {OFFICE: [office(name="Main")], AGENT: [agent(name="Ann Lee")], LISTING: listings or (listing(),)}
    await bench.build({COMPANY: COMPANIES, **lines})


async def served(bench: Bench, resource: Resource = LISTING) -> dict[str, dict[str, Any]]:
    """Return the live documents by identifier."""
    await bench.client.indices.refresh(index=bench.connection.alias(resource))
    return {name: one for name, one in (await bench.served(resource)).items() if not one["deleted"]}


async def names(bench: Bench, member: str = "ListAgentFullName") -> dict[str, str | None]:
    return {identifier: one["record"][member] for identifier, one in (await served(bench)).items()}


# Of each case: the agent, what the listing has, and its name.
CASES: dict[str, tuple[dict[str, Any] | None, dict[str, Any], str | None]] = {
    "its-name": ({"name": "Ann Lee"}, {}, "Ann Lee"),
    "its-first-and-last-names": ({"first_name": " Ann ", "last_name": "Lee"}, {}, "Ann Lee"),
    "a-part-of-a-name-is-none": ({"name": " ", "last_name": "Lee"}, {}, None),
    "what-is-no-text-is-none": ({"name": {"text": "Ann"}}, {}, None),
    "there-is-no-such-agent": (None, {}, None),
    "the-listing-has-no-agent": ({"name": "Ann Lee"}, {"ListAgentUUID": None}, None),
    "the-source-has-its-own": ({"name": "Ann Lee"}, {"ListAgentFullName": "A. Lee"}, "A. Lee"),
    "an-empty-text-is-lacking": ({"name": "Ann Lee"}, {"ListAgentFullName": ""}, "Ann Lee"),
    "an-agent-of-a-child-company": ({"name": "Ann Lee", "company": "child"}, {}, None),
    "an-agent-of-the-parent-company": ({"name": "Ann Lee"}, {"company": "child"}, None),
    "both-of-the-child-company": ({"name": "Ann Lee", "company": "child"}, {"company": "child"}, "Ann Lee"),
}


async def test_a_name_is_that_of_an_agent_of_the_same_company(bench: Bench) -> None:
    agents = [agent(identifier=identifier_of(AGENT, case), **given) for case, (given, _, _) in CASES.items() if given]
    lines = [
        listing(identifier=case, **{"ListAgentUUID": identifier_of(AGENT, case).upper(), **given})
        for case, (_, given, _) in CASES.items()
    ]
    await bench.build({COMPANY: COMPANIES, AGENT: agents, LISTING: lines})
    assert await names(bench) == {case: filled for case, (_, _, filled) in CASES.items()}
    assert await bench_is_as_its_source(bench)


async def bench_is_as_its_source(bench: Bench) -> bool:
    with open_source(str(bench.folder)) as source:
        return all(result.is_equal for result in await verify_against_source(bench.engine(), source, is_full=True))


@pytest.mark.parametrize("processes", [1, 2])
async def test_each_name_of_a_sale_is_filled(bench: Bench, processes: int) -> None:
    references = {name.reference: ANN if name.target == "agents" else "o1" for name in SOLD_LISTING.names}
    line = envelope(SOLD_LISTING, nameless(SOLD_LISTING, **references))
    lines = {COMPANY: COMPANIES, OFFICE: [office(name="Main")], AGENT: [agent(name="Ann Lee")], SOLD_LISTING: [line]}
    await bench.build(lines, processes=processes)
    (document,) = (await served(bench, SOLD_LISTING)).values()
    found = {name.member: document["record"][name.member] for name in SOLD_LISTING.names}
    assert found == {name.member: "Ann Lee" if name.target == "agents" else "Main" for name in SOLD_LISTING.names}
    assert await bench_is_as_its_source(bench)


# Of each case: what changes of its agent and of its listing, and the name then; None is a deletion.
CHANGES: dict[str, tuple[dict[str, Any] | None, dict[str, Any], str | None]] = {
    "the-agent-has-another-name": ({"name": "Ann Ray"}, {}, "Ann Ray"),
    "the-agent-has-none-any-more": ({"name": None}, {}, None),
    "the-agent-is-deleted": (None, {}, None),
    "the-agent-moves-to-another-company": ({"name": "Ann Lee", "company": "child"}, {}, None),
    "an-older-state-of-the-agent": ({"name": "Old", "day": 0}, {}, "Ann Lee"),
    "the-listing-changes": ({}, {"City": "Rye"}, "Ann Lee"),
    "the-source-has-its-own-now": ({}, {"ListAgentFullName": "A. Lee"}, "A. Lee"),
    "the-listing-has-another-agent": ({}, {"ListAgentUUID": identifier_of(AGENT, "nobody")}, None),
    "the-listing-has-a-new-agent": ({"name": "Bob", "identifier": BOB}, {"ListAgentUUID": BOB}, "Bob"),
    "nothing-changes": ({}, {}, "Ann Lee"),
}


@pytest.mark.parametrize("way", ["update", "reindex"])
async def test_a_name_follows_a_change(bench: Bench, way: str) -> None:
    known = {case: identifier_of(AGENT, case) for case in CHANGES}
    agents = {known[case]: agent(identifier=known[case], name="Ann Lee") for case in CHANGES}
    lines = {case: listing(identifier=case, ListAgentUUID=known[case]) for case in CHANGES}
    await bench.build({COMPANY: COMPANIES, AGENT: agents.values(), LISTING: lines.values()})
    before = await served(bench)
    for case, (of_agent, of_listing, _) in CHANGES.items():
        if of_agent is None:
            agents[known[case]] = deletion(AGENT, known[case], DAYS[2])
        elif of_agent:
            changed = agent(**{"day": 2, "identifier": known[case], **of_agent})
            agents[changed["record"]["agent_uuid"]] = changed
        if of_listing:
            lines[case] = listing(2, case, **{"ListAgentUUID": known[case], **of_listing})
    changes: dict[Resource, Any] = {AGENT: agents.values(), LISTING: lines.values()}
    if way == "update":
        await bench.update(changes)
    else:
        # The older state of an agent stays out, as it does in any rebuild.
        await bench.build({COMPANY: COMPANIES, AGENT: agents.values()}, force=True)
        await bench.update({LISTING: lines.values()})
    after = await served(bench)
    assert await names(bench) == {case: filled for case, (_, _, filled) in CHANGES.items()}
    for case, (_, of_listing, filled) in CHANGES.items():
        if not of_listing:
            assert after[case]["version"] == before[case]["version"], case
            is_new = filled != "Ann Lee"
            assert (after[case]["sequence"] > before[case]["sequence"]) is is_new, case
            assert (after[case]["content"] != before[case]["content"]) is is_new, case


async def test_what_is_sent_again_is_unchanged(bench: Bench) -> None:
    await start(bench)
    before = (await served(bench))["a"]
    summary = await bench.update({LISTING: [listing()]})
    assert (summary.report_for("listings").unchanged, summary.exit_code) == (1, 0)
    await bench.update({AGENT: [agent(2, name="Ann Lee", title="Broker")]})
    rebuilt = await bench.build_folder()
    assert rebuilt.report_for("listings").unchanged == 1
    assert (await served(bench))["a"] == before


async def test_a_listing_that_comes_before_its_agent_gets_the_name(bench: Bench) -> None:
    await start(bench, listing(ListAgentUUID=BOB))
    assert await names(bench) == {"a": None}
    summary = await bench.update({AGENT: [agent(name="Bob", identifier=BOB)]})
    assert await names(bench) == {"a": "Bob"}
    assert summary.notes == ["1 listings have new names of agents and offices, which their source lacks"]
    assert (await bench.update({AGENT: [agent(2, name="Bob", identifier=BOB)]})).notes == []


async def test_the_names_of_a_rolled_back_generation_are_those_of_now(bench: Bench) -> None:
    await start(bench)
    await bench.build({LISTING: [listing(2, City="Rye")]})
    await bench.update({AGENT: [agent(2, name="Ann Ray")]})
    await rollback(bench.engine(), LISTING)
    assert await names(bench) == {"a": "Ann Ray"}
    await bench.build({AGENT: [agent(3, name="Ann Foy")]})
    assert await names(bench) == {"a": "Ann Foy"}
    await rollback(bench.engine(), AGENT)
    assert await names(bench) == {"a": "Ann Ray"}


async def test_a_run_that_has_carried_enough_leaves_the_rest_to_the_next(bench: Bench, internals: Internals) -> None:
    await start(bench, *(listing(identifier=f"l{number}") for number in range(60)))
    internals(most_carried_names=20)
    found = [await bench.update({AGENT: [agent(2, name="Ann Ray")]}) for _ in range(4)]
    assert set((await names(bench)).values()) == {"Ann Ray"}
    assert "More listings wait for theirs" in found[0].notes[0]
    assert found[-1].notes == []
