"""A rebuild replaces the records of the companies that its source covers, and leaves those of all others alone."""

from pathlib import Path
from typing import Any

import pytest

from indexer import RunSummary, SourceError, open_source, rollback
from indexer.documents.companies import EVERY_COMPANY, CoverageRequest
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.source.opener import FolderSource
from indexer.verify.verification import DifferenceKind, verify_against_source
from mappings import COMPANY, LISTING, TEAM
from tests.indexer.conftest import Bench
from tests.indexer.rebuild.two_companies import Loader, company, live_names, of, stored, team, teams
from tests.records import deletion, envelope, write

MANY: dict[str, Any] = {"shrink_limit": 1.0, "growth_limit": 9.0}


@pytest.fixture
def north(bench: Bench) -> Loader:
    return Loader(bench, "north")


@pytest.fixture
def south(bench: Bench) -> Loader:
    return Loader(bench, "south")


def report(summary: RunSummary) -> Any:
    found = summary.report_for("teams")
    assert found.refusal is None
    return found


async def test_a_rebuild_of_one_brokerage_leaves_the_records_of_another_alone(
    bench: Bench, north: Loader, south: Loader
) -> None:
    assert (await north.load(teams("north", 300))).exit_code == 0
    before = await stored(bench.engine())
    summary = await south.load(teams("south", 300))
    found = await stored(bench.engine())
    assert summary.exit_code == 0
    assert (report(summary).covers, report(summary).others, report(summary).vanished) == ("south", 300, 0)
    assert len(of(found, "south")) == 300
    assert of(found, "north") == before
    assert set(await stored(bench.engine(), COMPANY)) == {"north", "south"}


async def test_a_rebuild_beside_others_changes_adds_and_deletes_only_its_own(
    bench: Bench, north: Loader, south: Loader
) -> None:
    await north.load(teams("north", 20))
    await south.load(teams("south", 20))
    before, mark = await stored(bench.engine()), await bench.mark(TEAM)
    lines = [team("south", "south-0", 5), *teams("south", 19)[1:], team("south", "south-new")]
    found = report(await south.load(lines, **MANY))
    after = await stored(bench.engine())
    assert (found.indexed, found.unchanged, found.vanished) == (2, 18, 1)
    assert found.vanished_companies == {"south": 1}
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"south-0", "south-19", "south-new"}
    assert live_names(of(after, "south")) == {f"south-{n}" for n in range(19)} | {"south-new"}
    stamps = {name: document["sequence"] for name, document in (await bench.served(TEAM)).items()}
    assert {name for name, sequence in stamps.items() if sequence > mark.sequence} == changed
    assert (await bench.mark(TEAM)).epoch_id == mark.epoch_id


async def test_a_record_of_a_company_that_is_not_covered_is_a_dead_letter(bench: Bench, north: Loader) -> None:
    await north.load(teams("north", 20))
    source = north.source([*teams("north", 20), team("south", "stray")], companies=[company("north"), company("south")])
    with open_source(source) as opened:
        summary = await bench.build_source(opened, [TEAM], covered=CoverageRequest(("north",)))
    (letter,) = bench.letters()
    assert (letter["line"], letter["field"]) == (21, "platform_company_id")
    assert letter["reason"].startswith("south is not among the companies that this run covers (north)")
    assert "--company south" in letter["reason"]
    assert summary.exit_code == 1
    assert "stray" not in await stored(bench.engine())


async def test_an_identifier_that_another_company_has_live_is_a_dead_letter_naming_both(
    bench: Bench, north: Loader, south: Loader
) -> None:
    await north.load(teams("north", 20))
    before = await stored(bench.engine())
    summary = await south.load([*teams("south", 20), team("south", "north-3", 500)])
    after = await stored(bench.engine())
    (letter,) = bench.letters()
    assert (letter["line"], letter["records"]) == (21, ["north-3"])
    assert letter["reason"].startswith("north-3 of south belongs to the company north, which this run does not cover")
    assert (summary.exit_code, len(of(after, "south"))) == (1, 20)
    assert of(after, "north") == before


async def test_a_record_that_its_company_deleted_can_be_loaded_by_another(
    bench: Bench, north: Loader, south: Loader
) -> None:
    await north.load(teams("north", 20))
    await south.load(teams("south", 5))
    await north.load(teams("north", 20)[1:])
    mark = await bench.mark(TEAM)
    summary = await south.load([*teams("south", 5), team("south", "north-0", 500)])
    found = await bench.served(TEAM)
    assert summary.exit_code == 0
    assert (found["north-0"]["company"], found["north-0"]["deleted"]) == ("south", False)
    departure = found["north/north-0"]
    assert (departure["company"], departure["reason"]) == ("north", "vanished")
    assert mark.sequence < departure["sequence"] < found["north-0"]["sequence"]


async def test_a_record_that_an_incomplete_source_made_vanish_comes_back_beside_others(
    bench: Bench, north: Loader, south: Loader
) -> None:
    await north.load(teams("north", 5))
    await south.load(teams("south", 20))
    await south.load(teams("south", 19))
    assert len(live_names(await stored(bench.engine()))) == 24
    await south.load(teams("south", 20))
    assert len(live_names(await stored(bench.engine()))) == 25
    for loader in (north, south):
        with open_source(str(bench.folder.parent / f"of-{loader.key}")) as source:
            results = await verify_against_source(bench.engine(), source, is_full=True)
        assert [result.is_equal for result in results] == [True, True], loader.key


async def test_all_companies_replaces_everything_and_counts_it(bench: Bench, north: Loader, south: Loader) -> None:
    await north.load(teams("north", 20))
    summary = await south.load(teams("south", 20), covered=EVERY_COMPANY, force=True, **MANY)
    found = report(summary)
    assert (found.covers, found.others, found.vanished) == ("all companies", 0, 20)
    assert found.vanished_companies == {"north": 20}
    assert live_names(await stored(bench.engine())) == {f"south-{n}" for n in range(20)}


async def test_a_named_company_that_the_source_lacks_loses_its_records(
    bench: Bench, north: Loader, south: Loader
) -> None:
    await north.load(teams("north", 20))
    await south.load(teams("south", 20))
    summary = await south.load(teams("south", 20), covered=CoverageRequest(("7001", "south")), force=True, **MANY)
    assert report(summary).covers == "north, south"
    assert report(summary).vanished_companies == {"north": 20}
    assert live_names(await stored(bench.engine())) == {f"south-{n}" for n in range(20)}


async def test_a_source_that_holds_no_company_is_refused_beside_others(bench: Bench, north: Loader) -> None:
    await north.load(teams("north", 2))
    folder = write(bench.folder, {COMPANY: [], TEAM: []})
    with pytest.raises(SourceError, match="The source holds no company, so it covers none: name those") as refused:
        await bench.build_source(FolderSource(folder), [COMPANY, TEAM])
    assert "--all-companies" not in str(refused.value)


@pytest.mark.parametrize("has_others", [True, False])
async def test_a_source_of_a_company_that_nothing_defines_is_refused(
    bench: Bench, north: Loader, has_others: bool
) -> None:
    if has_others:
        await north.load(teams("north", 2))
    folder = write(bench.folder, {TEAM: [envelope(TEAM, platform_company_id="new")]})
    with pytest.raises(SourceError) as refused:
        await bench.build_source(FolderSource(folder), [TEAM])
    assert str(refused.value) == (
        "The records are of new, which is no company in the source or the live index. If new is new, define it in the "
        'source: in a column map as [company] with platform_company_id = "new" and name = "…", in a folder in '
        "companies.ndjson."
    )


async def test_a_company_that_does_not_exist_cannot_be_covered(north: Loader) -> None:
    with pytest.raises(SourceError, match="--company: nroth is not a company in the source or the live index"):
        await north.load(teams("north", 2), covered=CoverageRequest(("nroth",)))


class DeclaringSource(FolderSource):
    """A folder that declares its companies, as a column map can."""

    companies = ("7001",)


async def test_a_source_without_a_list_of_companies_covers_those_of_its_records_or_those_it_declares(
    bench: Bench, north: Loader, south: Loader, tmp_path: Path
) -> None:
    await north.load(teams("north", 20))
    await south.load(teams("south", 20))
    folder = write(tmp_path / "only-teams", {TEAM: [team("7002", "south-1", 9), b"{", *teams("south", 19)[2:]]})
    summary = await bench.build_source(FolderSource(folder), [TEAM], force=True)
    assert (report(summary).covers, report(summary).others) == ("south", 20)
    assert len(live_names(await stored(bench.engine()))) == 38
    write(folder, {TEAM: teams("north", 18)})
    declared = report(await bench.build_source(DeclaringSource(folder), [TEAM]))
    assert (declared.covers, declared.vanished) == ("north", 2)


@pytest.mark.parametrize(
    ("key", "number", "field"), [("west", "7001", "numeric_id"), ("7001", "9", "platform_company_id")]
)
async def test_a_company_of_another_brokerage_keeps_its_numeric_id(
    bench: Bench, north: Loader, key: str, number: str, field: str
) -> None:
    await north.load(teams("north", 2))
    before = await stored(bench.engine(), COMPANY)
    write(bench.folder, {COMPANY: [envelope(COMPANY, {"platform_company_id": key, "numeric_id": number})]})
    summary = await bench.build_folder([COMPANY])
    (letter,) = bench.letters()
    assert (letter["field"], letter["reason"]) == (f"record.{field}", "7001 already identifies the company north")
    assert summary.exit_code == 1
    assert await stored(bench.engine(), COMPANY) == before


async def test_a_parent_does_not_cover_its_children(bench: Bench, north: Loader) -> None:
    await north.load(teams("north", 5))
    write(bench.folder, {COMPANY: [company("south", parent_company_id="7001")], TEAM: teams("south", 5)})
    await bench.build_folder([COMPANY, TEAM])
    assert (await bench.served(COMPANY))["south"]["parent_company_id"] == "north"
    before = await stored(bench.engine())
    assert report(await north.load(teams("north", 5))).covers == "north"
    assert await stored(bench.engine()) == before


async def test_an_update_that_names_its_company_touches_no_other(bench: Bench, north: Loader, south: Loader) -> None:
    await north.load(teams("north", 20))
    await south.load(teams("south", 20))
    before = await stored(bench.engine())
    lines = [team("south", "south-1", 9), team("north", "north-1", 9), team("south", "north-2", 9)]
    lines.append(deletion(TEAM, "north-3", "2026-03-02T00:00:00Z") | {"platform_company_id": "south"})
    summary = await bench.update({TEAM: lines}, covered=CoverageRequest(("7002",)))
    after = await stored(bench.engine())
    assert {name for name in after if after[name] != before[name]} == {"south-1"}
    assert sorted(letter["line"] for letter in bench.letters()) == [2, 3, 4]
    assert "north-2 of south belongs to the company north" in bench.letters()[1]["reason"]
    assert summary.exit_code == 1


async def test_a_verification_compares_the_covered_companies_only(bench: Bench, north: Loader, south: Loader) -> None:
    await north.load(teams("north", 5))
    await south.load(teams("south", 5))
    with open_source(str(bench.folder.parent / "of-south")) as source:
        own = await verify_against_source(bench.engine(), source, [TEAM])
        everything = await verify_against_source(bench.engine(), source, [TEAM], covered=EVERY_COMPANY)
    assert [(result.is_equal, result.compared, result.covers) for result in own] == [(True, 5, "south")]
    assert [result.counts[DifferenceKind.SURPLUS] for result in everything] == [5]


async def test_a_rollback_keeps_what_other_companies_have_updated_since(
    bench: Bench, north: Loader, south: Loader
) -> None:
    await north.load(teams("north", 5))
    await south.load(teams("south", 5))
    await south.load(teams("south", 5, at=7))
    await bench.update({TEAM: [team("north", "north-1", 8)]})
    await rollback(bench.engine(), TEAM)
    names = {name: found["record"]["name"] for name, found in (await bench.served(TEAM)).items()}
    assert names["north-1"] == "north-1 at 8"
    assert names["south-1"] == "south-1 at 0"


async def test_a_block_that_a_killed_run_left_is_lifted_by_the_next_run_of_anyone(bench: Bench, north: Loader) -> None:
    await north.load(teams("north", 5))
    live = bench.connection.prefix + await bench.live(TEAM)
    await GenerationLifecycle(bench.engine(), TEAM).update_meta(live, blocked_for="teams-v0099")
    await bench.client.indices.add_block(index=live, block="write")
    assert (await bench.update({TEAM: [team("north", "north-1", 8)]})).exit_code == 0
    settings = await bench.client.indices.get_settings(index=live, flat_settings=True)
    assert "true" not in str(settings[live]["settings"].get("index.blocks.write"))
    assert (await bench.served(TEAM))["north-1"]["record"]["name"] == "north-1 at 8"


async def test_records_of_others_in_an_index_of_another_schema_refuse_the_rebuild(
    bench: Bench, north: Loader, south: Loader
) -> None:
    await north.load(teams("north", 5))
    live = bench.connection.prefix + await bench.live(TEAM)
    await GenerationLifecycle(bench.engine(), TEAM).update_meta(live, fingerprint="of another version")
    summary = await south.load(teams("south", 5))
    refusal = summary.report_for("teams").refusal
    assert refusal is not None
    assert "5 records of companies that this run does not cover (south)" in refusal
    assert "--all-companies" in refusal
    assert await bench.live(TEAM) == "teams-v0001"
    # Alone, or together with all others, it is rebuilt for the new schema.
    assert (await north.load(teams("north", 5))).exit_code == 0


async def test_a_resource_that_only_another_brokerage_has_is_left_alone(
    bench: Bench, north: Loader, south: Loader
) -> None:
    listing = envelope(LISTING, platform_company_id="north")
    with open_source(north.source(teams("north", 5), listings=[listing])) as source:
        await bench.build_source(source, [COMPANY, TEAM, LISTING])
    before = await stored(bench.engine(), LISTING)
    with open_source(south.source(teams("south", 5), listings=[])) as source:
        summary = await bench.build_source(source, [COMPANY, TEAM, LISTING])
    assert summary.exit_code == 0
    assert await stored(bench.engine(), LISTING) == before
