"""The gate looks at identities: which records, companies and references would be gone."""

from dataclasses import replace
from typing import Any

import pytest

from indexer import ResourceReport, RunStage, RunSummary
from indexer.documents.companies import EVERY_COMPANY
from indexer.generations.gates import CompanyRemovals, removal_objection
from mappings import AGENT, COMPANY, LISTING, OFFICE, TEAM, Resource, declared_references
from tests.indexer.conftest import Bench
from tests.records import deletion, envelope, identifier_of, write

Lines = list[dict[str, Any] | bytes]


def company(key: str, numeric_id: str) -> dict[str, Any]:
    return envelope(COMPANY, {"platform_company_id": key, "numeric_id": numeric_id})


BOTH: Lines = [company("acme", "4100"), company("other", "7")]


def teams(prefix: str, count: int, key: str = "acme", first: int = 0) -> Lines:
    numbers = range(first, first + count)
    return [envelope(TEAM, {"uuid": f"{prefix}{number}"}, platform_company_id=key) for number in numbers]


async def rebuilt(
    bench: Bench, before: dict[Resource, Lines], after: dict[Resource, Lines], **options: Any
) -> RunSummary:
    """Load the lines before, then rebuild from those after, besides which the source stays as it was."""
    first = await bench.build({COMPANY: BOTH, **before}, growth_limit=100.0)
    assert first.exit_code == 0, first
    write(bench.folder, after)
    return await bench.build_folder({COMPANY, *before}, growth_limit=100.0, **options)


def refused(summary: RunSummary, alias: str) -> str:
    assert summary.report_for(alias).stage is RunStage.REFUSED
    return str(summary.report_for(alias).refusal)


async def test_as_many_new_identifiers_do_not_make_up_for_those_that_vanish(bench: Bench) -> None:
    summary = await rebuilt(bench, {TEAM: teams("t", 30)}, {TEAM: teams("u", 31)})
    assert (
        "would remove 30 of 30 live teams, more than BROKERAGE_SHRINK_LIMIT (0.05) allows: 30 of 30 of acme (t0, "
        in (refused(summary, "teams"))
    )


async def test_the_source_of_one_company_does_not_remove_another(bench: Bench) -> None:
    summary = await rebuilt(bench, {TEAM: teams("t", 300)}, {TEAM: teams("o", 300, "other")})
    assert "300 of 300 of acme (t0, t1, t10 and 297 more)" in refused(summary, "teams")


async def test_a_small_company_that_loses_all_is_named_next_to_a_large_one(bench: Bench) -> None:
    before = [*teams("t", 400), *teams("o", 4, "other")]
    summary = await rebuilt(bench, {TEAM: before}, {TEAM: before[:400]})
    assert "would remove 4 of 404 live teams" in refused(summary, "teams")
    assert "allows: 4 of 4 of other (o0, o1, o2 and 1 more)." in refused(summary, "teams")


@pytest.mark.parametrize("gone", [10, 11])
async def test_ten_records_of_a_company_may_always_go(bench: Bench, gone: int) -> None:
    before = [*teams("t", 300), *teams("o", 20, "other")]
    summary = await rebuilt(bench, {TEAM: before}, {TEAM: before[: 320 - gone]})
    report = summary.report_for("teams")
    assert (report.stage, report.vanished) == (RunStage.SWAPPED if gone == 10 else RunStage.REFUSED, gone)
    if gone == 11:
        assert "11 of 20 of other" in str(report.refusal)


async def test_the_largest_three_companies_are_shown(bench: Bench) -> None:
    companies = [company(f"c{number}", str(number)) for number in range(5)]
    before = [team for number in range(5) for team in teams(f"c{number}-", 3 + number, f"c{number}")]
    await bench.build({COMPANY: companies, TEAM: before})
    summary = await bench.build({COMPANY: companies, TEAM: before[:1]})
    assert (
        "7 of 7 of c4 (c4-0, c4-1, c4-2 and 4 more), 6 of 6 of c3 (c3-0, c3-1, c3-2 and 3 more), "
        "5 of 5 of c2 (c2-0, c2-1, c2-2 and 2 more) and 1 more."
    ) in refused(summary, "teams")


async def test_deletions_by_the_source_count_if_the_record_was_live(bench: Bench) -> None:
    before = teams("t", 40)
    never: Lines = [deletion(TEAM, f"never{number}") for number in range(50)]
    gone: Lines = [deletion(TEAM, f"t{number}", "2026-02-01T00:00:00Z") for number in range(12)]
    summary = await rebuilt(bench, {TEAM: before}, {TEAM: [*before[12:], *gone, *never]})
    assert "would remove 12 of 40 live teams" in refused(summary, "teams")


async def test_records_that_move_are_lost_to_the_company_they_leave(bench: Bench) -> None:
    summary = await rebuilt(bench, {TEAM: teams("t", 20)}, {TEAM: teams("t", 20, "other")})
    assert "20 of 20 of acme (t0, t1, t10 and 17 more, 20 of them to other companies)" in refused(summary, "teams")


async def test_a_company_that_would_vanish_is_named(bench: Bench) -> None:
    summary = await rebuilt(bench, {TEAM: teams("t", 5)}, {COMPANY: BOTH[:1]}, covered=EVERY_COMPANY)
    assert "companies-v0002 would remove 1 of 2 live companies: other" in refused(summary, "companies")


@pytest.mark.parametrize(
    ("count", "live", "share", "is_excessive"),
    [
        (2, 2, 0.05, False),
        (3, 3, 0.05, True),
        (3, 4, 0.05, False),
        (3, 3, 1.0, False),
        (10, 11, 0.05, False),
        (11, 100, 0.05, True),
        (50, 1000, 0.05, False),
        (51, 1000, 0.05, True),
    ],
)
def test_a_company_may_not_lose_more_than_a_share_or_the_last_of_several(
    count: int, live: int, share: float, is_excessive: bool
) -> None:
    assert CompanyRemovals("acme", count=count, live=live).is_excessive(share) is is_excessive


def test_companies_without_a_count_are_written_without_one() -> None:
    assert str(CompanyRemovals("acme", count=1, examples=["a"])) == "1 of acme (a)"
    many = [CompanyRemovals(f"c{n}", count=2, examples=["a", "b"]) for n in range(50)]
    assert "would remove 100 of 200 live teams" in str(removal_objection(TEAM, many, 200, 0.05))
    assert removal_objection(TEAM, many[:5], 200, 0.05) is None


def test_what_moves_is_lost_to_a_company_and_not_to_all() -> None:
    moves = [CompanyRemovals(f"c{n}", count=8, moved=8, live=400) for n in range(9)]
    assert removal_objection(TEAM, moves, 1_000, 0.05) is None
    losses = [replace(removal, moved=0) for removal in moves]
    assert "would remove 72 of 1,000 live teams" in str(removal_objection(TEAM, losses, 1_000, 0.05))


def test_references_follow_from_the_mappings() -> None:
    found = {
        (reference.resource.alias, reference.field.name, reference.target.alias) for reference in declared_references()
    }
    assert {("listings", "company", "companies"), ("agents", "office", "offices")} < found
    assert {("listings", "agents", "agents"), ("sold_listings", "buyer_offices", "offices")} < found
    assert not any(resource == target for resource, _, target in found)


def agents(count: int, offices: int, prefix: str = "o") -> Lines:
    return [
        envelope(AGENT, {"agent_uuid": identifier_of(AGENT, f"a{n}"), "platform_office_id": f"{prefix}{n % offices}"})
        for n in range(count)
    ]


def offices(count: int) -> Lines:
    return [envelope(OFFICE, {"platform_office_id": f"o{number}"}) for number in range(count)]


async def test_agents_whose_offices_would_be_gone_refuse_the_swap(bench: Bench) -> None:
    before: dict[Resource, Lines] = {OFFICE: offices(20), AGENT: agents(60, 20)}
    summary = await rebuilt(bench, before, {OFFICE: offices(15)})
    assert "15 of 60 agents would name offices that are not there, in addition to the 0 that do now: " in refused(
        summary, "agents"
    )
    assert " names o1" in refused(summary, "agents")
    stages = [summary.report_for(alias).stage for alias in ("companies", "offices")]
    assert stages == [RunStage.BUILT, RunStage.BUILT]


async def test_references_to_what_is_not_rebuilt_are_checked_too(bench: Bench) -> None:
    before: dict[Resource, Lines] = {OFFICE: offices(20), AGENT: agents(60, 20)}
    assert (await bench.build({COMPANY: BOTH, **before})).exit_code == 0
    write(bench.folder, {AGENT: agents(60, 20, "x")})
    summary = await bench.build_folder([AGENT])
    assert "60 of 60 agents would name offices that are not there" in refused(summary, "agents")
    assert f"{identifier_of(AGENT, 'a0')} names x0" in refused(summary, "agents")
    write(bench.folder, {OFFICE: offices(15)})
    assert "15 of 60 agents would name offices" in refused(await bench.build_folder([OFFICE]), "offices")


async def test_those_that_dangle_no_longer_do_not_make_up_for_others(bench: Bench) -> None:
    """30 agents named offices that were never there and name one that is; of 30 others, 23 lose theirs."""
    kept, lost, unknown = agents(60, 1)[30:], agents(30, 12), agents(60, 15, "x")[30:]
    before: dict[Resource, Lines] = {OFFICE: offices(12), AGENT: [*lost, *unknown]}
    after: dict[Resource, Lines] = {OFFICE: [*offices(1), *offices(12)[10:]], AGENT: [*lost, *kept]}
    assert "23 of 60 agents would name offices that are not there" in refused(
        await rebuilt(bench, before, after), "agents"
    )


async def test_references_that_dangle_already_do_not_count(bench: Bench) -> None:
    listings: Lines = [envelope(LISTING, {"PlatformListingId": f"l{n}"}) for n in range(60)]
    summary = await rebuilt(bench, {LISTING: listings[:30], AGENT: agents(1, 1)}, {LISTING: listings})
    assert summary.exit_code == 0


async def test_a_company_may_not_go_before_its_records(bench: Bench) -> None:
    gone = deletion(COMPANY, "other", "2026-02-01T00:00:00Z") | {"platform_company_id": "other"}
    await bench.build({COMPANY: BOTH, TEAM: teams("o", 2, "other")})
    write(bench.folder, {COMPANY: [BOTH[0], gone]})
    summary = await bench.build_folder([COMPANY])
    assert "2 of 2 teams would name companies that are not there" in refused(summary, "companies")


async def test_force_swaps_what_would_dangle_and_says_so(bench: Bench) -> None:
    before: dict[Resource, Lines] = {OFFICE: offices(20), AGENT: agents(60, 20)}
    summary = await rebuilt(bench, before, {OFFICE: offices(15)}, force=True)
    report: ResourceReport = summary.report_for("agents")
    assert (report.stage, len(report.overridden)) == (RunStage.SWAPPED, 1)
    assert len(await bench.served(OFFICE)) == 20  # five of them are tombstones
