"""A verification names exactly the records that differ, and takes what is right for right."""

from indexer import FolderSource, scan
from indexer.verify.verification import DifferenceKind, verify_against_source
from mappings import OFFICE, TEAM
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
from tests.records import envelope


@both_modes
async def test_what_was_built_is_equal(bench: Bench, full: bool) -> None:
    await bench.build({TEAM: [*teams(300), deleted_team("t300")], OFFICE: [envelope(OFFICE)]})
    results = await verify_against_source(bench.engine(), FolderSource(bench.folder), is_full=full)
    assert [(one.resource, one.compared, one.is_equal) for one in results] == [
        ("companies", 0, False),  # in the source, but not among what was built
        ("offices", 1, True),
        ("teams", 300, True),
    ]
    assert results[0].index is None
    assert [(differing_ids(one), one.repeated, one.unreadable) for one in results] == [({}, 0, 0)] * 3
    assert results[2].index == f"{bench.connection.prefix}teams-v0001"


@both_modes
async def test_one_lost_one_surplus_and_one_changed_record_are_named(bench: Bench, full: bool) -> None:
    await bench.build({TEAM: [*teams(40), team("extra")]})
    await delete_document(bench.client, bench.connection.alias(TEAM), "t7", refresh=True)
    changed = team("t8", name="another name")
    result = await verified(bench, [changed if one["record"]["uuid"] == "t8" else one for one in teams(40)], full=full)
    assert differing_ids(result)["missing"] == ["t7"]
    assert differing_ids(result)["surplus"] == ["extra"]
    # Of the two contents at one moment either has the higher version.
    assert differing_ids(result).get("different", differing_ids(result).get("newer")) == ["t8"]
    assert sum(result.counts.values()) == 3
    assert (result.is_equal, result.compared) == (False, 40)
    (missing,), (surplus,) = result.named[DifferenceKind.MISSING], result.named[DifferenceKind.SURPLUS]
    assert missing.expected is not None
    assert missing.expected >> 10 == 1_769_904_000_000_000
    assert missing.found is surplus.expected is None
    assert surplus.found is not None


@both_modes
async def test_an_older_version_in_the_index_is_different_and_a_newer_one_no_fault(bench: Bench, full: bool) -> None:
    await bench.build({TEAM: [team("behind", OLD), team("ahead", NEWEST, name="x"), team("deleted-since"), *teams(5)]})
    index = bench.connection.alias(TEAM)
    await replace_in(bench, "deleted-since", b'"deleted":false', b'"deleted":true')
    document = (await scan.fetch_documents(bench.engine(), index, ["deleted-since"]))[0]
    later = document.version + 1
    source = document.source.replace(b'"version":%d' % document.version, b'"version":%d' % later)
    await put(bench, "deleted-since", source, later)
    result = await verified(bench, [team("behind", NEW), team("ahead"), team("deleted-since"), *teams(5)], full=full)
    assert differing_ids(result) == {"different": ["behind"], "newer": ["ahead", "deleted-since"]}
    assert not result.is_equal
    result = await verified(bench, [team("behind", OLD), team("ahead"), team("deleted-since"), *teams(5)], full=full)
    assert differing_ids(result) == {"newer": ["ahead", "deleted-since"]}
    assert result.is_equal


async def test_the_same_version_with_another_content_is_different(bench: Bench) -> None:
    await bench.build({TEAM: teams(5)})
    document = (await scan.fetch_documents(bench.engine(), bench.connection.alias(TEAM), ["t3"]))[0]
    row = (await scan.look_up_rows(bench.engine(), bench.connection.alias(TEAM), ["t3"]))["t3"]
    altered = document.source.replace(b'"content":%d' % row.content, b'"content":%d' % (row.content ^ 1))
    await put(bench, "t3", altered, document.version)
    result = await verified(bench)
    assert differing_ids(result) == {"different": ["t3"]}
    (record,) = result.named[DifferenceKind.DIFFERENT]
    assert record.expected == record.found == document.version


@both_modes
async def test_repeated_records_count_once_with_their_newest_version(bench: Bench, full: bool) -> None:
    history = [team("twice", OLD, name="a"), team("twice", NEW, name="b"), team("back", NEW), team("back", OLD)]
    same = [team("same"), team("same")]
    await bench.build({TEAM: [*history, *same, *teams(50)]})
    result = await verified(bench, full=full)
    assert (result.is_equal, differing_ids(result), result.compared, result.repeated) == (True, {}, 53, 3)
    await replace_in(bench, "twice", b'"deleted":false', b'"deleted":true ')
    result = await verified(bench, full=full)
    assert differing_ids(result) == {"different": ["twice"]}


@both_modes
async def test_deleted_records_may_be_tombstones_or_absent(bench: Bench, full: bool) -> None:
    lines = [
        team("was", OLD),
        deleted_team("was", NEW),
        deleted_team("came-back", OLD),
        team("came-back", NEW),
        deleted_team("never-was"),
    ]
    await bench.build({TEAM: [*lines, *teams(3)]})
    result = await verified(bench, full=full)
    assert (differing_ids(result), result.compared) == ({}, 4)
    await delete_document(bench.client, bench.connection.alias(TEAM), "never-was", refresh=True)
    await delete_document(bench.client, bench.connection.alias(TEAM), "was", refresh=True)
    result = await verified(bench, full=full)
    assert (differing_ids(result), result.compared, result.is_equal) == ({}, 4, True)
    result = await verified(bench, teams(3), full=full)
    assert differing_ids(result) == {"surplus": ["came-back"]}


@both_modes
async def test_a_deletion_that_the_index_missed_is_surplus(bench: Bench, full: bool) -> None:
    await bench.build({TEAM: [team("a", OLD), *teams(3)]})
    result = await verified(bench, [team("a", OLD), deleted_team("a", NEW), *teams(3)], full=full)
    assert differing_ids(result) == {"surplus": ["a"]}
    (record,) = result.named[DifferenceKind.SURPLUS]
    assert record.expected is not None
    assert record.found is not None
    assert record.found < record.expected
    result = await verified(bench, [deleted_team("a", NEW), team("a", OLD), *teams(3)], full=full)
    assert differing_ids(result) == {"surplus": ["a"]}


async def test_a_record_that_was_deleted_too_much_is_different(bench: Bench) -> None:
    await bench.build({TEAM: [deleted_team("a", OLD), *teams(3)]})
    assert differing_ids(await verified(bench, [team("a", NEW), *teams(3)])) == {"different": ["a"]}
