"""Invalid lines go to the dead-letter file and the rest is served; above the limit nothing is swapped."""

import orjson

from indexer import RunStage
from mappings import COMPANY, LISTING, TEAM
from tests.indexer.conftest import Bench
from tests.records import envelope


async def test_bad_lines_are_written_down_and_the_rest_is_served(bench: Bench) -> None:
    refused_by_engine = envelope(LISTING, {"PlatformListingId": "long", "ListingID": "x" * 40_000})
    wrong_type = envelope(LISTING, {"PlatformListingId": "typed", "ListPrice": "cheap"})
    summary = await bench.build({LISTING: [envelope(LISTING), wrong_type, b"{nonsense", refused_by_engine]})
    report = summary.report_for("listings")
    assert (report.stage, report.read, report.indexed, report.dead) == (RunStage.SWAPPED, 4, 1, 3)
    assert summary.exit_code == 1
    assert list(await bench.served(LISTING)) == ["listing-1"]
    typed, nonsense, long = sorted(bench.letters(), key=lambda letter: letter["line"])
    assert {letter["file"] for letter in (typed, nonsense, long)} == {"listings.ndjson"}
    assert (typed["line"], typed["field"]) == (2, "record.ListPrice")
    assert typed["reason"] == "expected `int | float | null`, got `str`"
    assert orjson.loads(typed["payload"]) == wrong_type
    assert (nonsense["line"], nonsense["field"], nonsense["payload"]) == (3, "", "{nonsense")
    assert (long["line"], long["field"]) == (4, "")
    assert "immense term" in long["reason"]


async def test_a_clean_run_leaves_no_dead_letter_file(bench: Bench) -> None:
    summary = await bench.build({})
    assert summary.report_for("companies").dead_letters is None
    assert not (bench.folder.parent / "dead-letters").exists()


async def test_ten_bad_records_always_pass_and_the_share_beyond_is_a_setting(bench: Bench) -> None:
    ten = await bench.build({TEAM: [envelope(TEAM), *[b"{}"] * 10]})
    assert ten.report_for("teams").stage is RunStage.SWAPPED
    half = await bench.build(
        {TEAM: [envelope(TEAM)] + [envelope(TEAM, {"uuid": f"t{n}"}) for n in range(20)] + [b"{}"] * 20},
        dead_letter_limit=0.5,
        growth_limit=100.0,
    )
    assert half.report_for("teams").stage is RunStage.SWAPPED


async def test_a_long_run_of_bad_records_ends_the_build_before_the_end_of_the_file(bench: Bench) -> None:
    summary = await bench.build({TEAM: [envelope(TEAM), *[b"{}"] * 20_000]}, bulk_documents=50)
    assert summary.report_for("teams").stage is RunStage.REFUSED
    assert summary.report_for("teams").read < 1000


async def test_refused_companies_end_the_run(bench: Bench) -> None:
    summary = await bench.build({COMPANY: [b"{}"] * 11, TEAM: [envelope(TEAM)]})
    assert summary.report_for("companies").stage is RunStage.REFUSED
    assert summary.report_for("teams").stage is RunStage.WAITING
    assert await bench.indices() == ["companies-v0001"]


async def test_a_company_whose_number_is_taken_is_refused_together_with_its_records(bench: Bench) -> None:
    twin = envelope(COMPANY, {"platform_company_id": "twin"})
    number = envelope(COMPANY, {"platform_company_id": "sly", "numeric_id": "8"})
    eight = envelope(COMPANY, {"platform_company_id": "8", "numeric_id": None})
    teams = [envelope(TEAM, {"uuid": key}, platform_company_id=key) for key in ("twin", "sly", "8", "4100")]
    summary = await bench.build({COMPANY: [envelope(COMPANY), twin, number, eight], TEAM: teams})
    assert summary.report_for("companies").dead == 2
    assert sorted(await bench.served(TEAM)) == ["4100", "8"]
    assert (await bench.served(TEAM))["4100"]["company"] == "acme"
    assert [letter["field"] for letter in bench.letters()] == ["record.numeric_id"] * 2 + ["platform_company_id"] * 2


async def test_without_companies_in_the_source_the_live_ones_count(bench: Bench) -> None:
    await bench.build({})
    (bench.folder / "companies.ndjson").unlink()
    teams = [envelope(TEAM, {"uuid": key}, platform_company_id=key) for key in ("acme", "4100", "new")]
    (bench.folder / "teams.ndjson").write_bytes(b"\n".join(orjson.dumps(team) for team in teams))
    summary = await bench.build_folder()
    assert sorted(await bench.served(TEAM)) == ["4100", "acme"]
    assert summary.report_for("teams").dead == 1
