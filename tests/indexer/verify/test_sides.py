"""A running verification: many differences at once, stored bytes, bad lines, updates meanwhile, two generations."""

from functools import partial
from typing import Any

import pytest

from indexer import FolderSource, RefusedError, SourceError, scan
from indexer.verify.verification import (
    DifferenceKind,
    buckets_together,
    verify_against_generation,
    verify_against_source,
)
from mappings import COMPANY, OFFICE, TEAM
from mappings.stored_document import coarse_bucket
from tests.indexer.client_requests import before, nothing
from tests.indexer.conftest import Bench
from tests.indexer.raw_documents import delete_document
from tests.indexer.verify.verification_cases import (
    NEW,
    NEWEST,
    OLD,
    both_modes,
    deleted_team,
    differing_ids,
    put,
    replace_in,
    team,
    teams,
    verified,
)
from tests.internals import Internals


@both_modes
@pytest.mark.parametrize("held", [8, 10_000])
async def test_however_many_buckets_differ_each_record_is_named_once(
    bench: Bench, internals: Internals, held: int, full: bool
) -> None:
    internals(verification_most_records=held, verification_look_up_records=7)
    await bench.build({TEAM: teams(100)})
    lost, others = [f"t{number}" for number in range(0, 100, 4)], [f"u{number}" for number in range(15)]
    assert len({coarse_bucket(name) for name in [*lost, *others]}) > 30
    for name in lost:
        await delete_document(bench.client, bench.connection.alias(TEAM), name)
    await bench.client.indices.refresh(index=bench.connection.alias(TEAM))
    result = await verified(bench, [*teams(100), *(team(name) for name in others)], full=full)
    assert sorted(differing_ids(result)["missing"]) == sorted([*lost, *others])
    assert (result.compared, list(differing_ids(result))) == (115, ["missing"])


def test_buckets_are_held_together_up_to_the_bound(internals: Internals) -> None:
    internals(verification_most_records=10)
    sizes = [4, 6, 1, 0, 30, 2, 8]
    assert buckets_together([0, 1, 2, 3, 4, 5, 6], sizes) == [[0, 1], [2, 3], [4], [5, 6]]
    assert buckets_together([], sizes) == []


async def test_stored_bytes_that_were_altered_behind_their_hash_are_found_by_full_alone(bench: Bench) -> None:
    await bench.build({TEAM: teams(30)})
    await replace_in(bench, "t5", b'"uuid":"t5"', b'"uuid":"t6"')
    assert differing_ids(await verified(bench)) == {}
    result = await verified(bench, full=True)
    assert (differing_ids(result), result.is_equal) == ({"altered": ["t5"]}, False)


@pytest.mark.parametrize("mark", [b"\t", b""])
async def test_a_document_that_was_written_by_something_else_is_altered(bench: Bench, mark: bytes) -> None:
    await bench.build({TEAM: teams(10)})
    index = bench.connection.alias(TEAM)
    (document,) = await scan.fetch_documents(bench.engine(), index, ["t5"])
    # A higher version of the engine's with the bytes as they were, and the same bytes rendered without marks.
    await put(bench, "t5", document.source.replace(b"\t", mark), document.version + bool(mark))
    assert differing_ids(await verified(bench, full=True)) == {"altered": ["t5"]}


async def test_invalid_lines_are_reported_but_are_not_differences(bench: Bench) -> None:
    bad: list[Any] = [b"{", team("t1", name=7), b'{"record":{"uuid":9}}']
    await bench.build({TEAM: [*teams(3), *bad, team("t1", OLD)]})
    result = await verified(bench)
    assert (result.is_equal, result.compared, result.unreadable) == (True, 3, 3)
    assert [(line.file, line.line) for line in result.unreadable_named] == [("teams.ndjson", n) for n in (4, 5, 6)]
    assert result.unreadable_named[1].field == "record.name"


async def test_what_is_repaired_meanwhile_is_not_reported(bench: Bench) -> None:
    await bench.build({TEAM: teams(5)})
    index = bench.connection.alias(TEAM)
    (document,) = await scan.fetch_documents(bench.engine(), index, ["t3"])
    await delete_document(bench.client, index, "t3", refresh=True)
    await delete_document(bench.client, index, "t4", refresh=True)
    repair = partial(put, bench, "t3", document.source, document.version + 1)
    with before(bench.client, "POST teams-v0001/_refresh", nothing, repair):
        assert differing_ids(await verified(bench)) == {"missing": ["t4"]}


async def test_what_was_written_before_is_visible_to_the_comparison(bench: Bench) -> None:
    await bench.build({TEAM: teams(5)}, refresh_interval="-1")
    await delete_document(bench.client, bench.connection.alias(TEAM), "t3")
    assert differing_ids(await verified(bench)) == {"missing": ["t3"]}


async def test_a_thousand_are_named_and_all_are_counted(bench: Bench, internals: Internals) -> None:
    internals(verification_most_named=4)
    await bench.build({TEAM: teams(2)})
    result = await verified(bench, [*teams(12), *([b"{"] * 6)])
    assert (result.counts[DifferenceKind.MISSING], len(result.named[DifferenceKind.MISSING])) == (10, 4)
    assert (result.unreadable, len(result.unreadable_named)) == (6, 4)


async def test_a_resource_that_the_source_lacks_is_refused(bench: Bench) -> None:
    await bench.build({TEAM: teams(1)})
    with pytest.raises(SourceError, match="nothing for: offices"):
        await verify_against_source(bench.engine(), FolderSource(bench.folder), [OFFICE, TEAM])


@both_modes
async def test_two_generations_are_compared_by_the_same_means(bench: Bench, full: bool) -> None:
    await bench.build({TEAM: [*teams(20), team("lost"), team("changed", OLD), deleted_team("dead")]})
    await bench.build({TEAM: [*teams(20), team("added"), team("changed", NEW, name="x"), deleted_team("t3", NEWEST)]})
    (result,) = await verify_against_generation(bench.engine(), is_full=full)
    assert differing_ids(result) == {"missing": ["lost"], "surplus": ["added"], "newer": ["changed", "t3"]}
    prefix = bench.connection.prefix
    assert (result.reference, result.index) == (f"{prefix}teams-v0001", f"{prefix}teams-v0002")
    assert result.compared == 22
    for name in ("teams-v0001", f"{prefix}teams-v0001"):
        (again,) = await verify_against_generation(bench.engine(), [TEAM], generation=name, is_full=full)
        assert differing_ids(again) == differing_ids(result)


async def test_without_a_source_or_an_earlier_generation_it_says_what_to_give(bench: Bench) -> None:
    engine = bench.engine()
    await bench.build({TEAM: teams(1)})
    for resources, says in (([], "There is no earlier version"), ([TEAM], "teams has no earlier version")):
        with pytest.raises(RefusedError, match=f"{says} to compare with: specify a SOURCE"):
            await verify_against_generation(engine, resources)
    refused = {
        "teams-v0009": "teams-v0009 does not exist. Generations: .*teams-v0001",
        "teams-v0001": "no other one is live",
        "teams": "is not the name of an index version",
        "pets-v0001": "is not the name of an index version",
        "offices-v0001": "Generations: none",
    }
    for generation, says in refused.items():
        with pytest.raises(RefusedError, match=says):
            await verify_against_generation(engine, generation=generation)
    with pytest.raises(RefusedError, match="is a version of teams"):
        await verify_against_generation(engine, [COMPANY], generation="teams-v0001")
