"""Moves: what is stored of a record that leaves a company, and that no failure ever loses one."""

from typing import Any

import orjson
import pytest

from cluster.control_index import mark_id, read_mark
from indexer import RunStage, open_source, prune
from indexer.changes.stamps import newest_by_id
from indexer.documents.builder import PendingDocument
from indexer.documents.companies import Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.reporting.report import ResourceReport
from indexer.source.lines import SourceLine
from indexer.verify.verification import verify_against_source
from mappings import TEAM
from mappings.stored_document import bucket, record_hash, split_hash
from tests.indexer.changes.scope_consumers import (
    KEYS,
    ConsumerView,
    begin,
    move_documents,
    read_view,
    team,
    wrong_copies,
)
from tests.indexer.changes.test_fenced_sessions import expire_lock
from tests.indexer.client_requests import Killed, before, kill
from tests.indexer.conftest import Bench
from tests.indexer.expected_state import at_stage, run_in_thread
from tests.records import write

_EVER = 36_500.0


def pending(*teams: dict[str, Any]) -> dict[str, PendingDocument]:
    parser = LineParser(TEAM, Companies(set(KEYS)))
    return newest_by_id([parser.parse(SourceLine("file", 1, orjson.dumps(sent)), ParsedChunk()) for sent in teams])


async def rebuild(bench: Bench, *teams: dict[str, Any]) -> ResourceReport:
    """Rebuild the teams, keeping all tombstones, and return the counts."""
    write(bench.folder, {TEAM: teams})
    return (await bench.build_folder([TEAM], tombstone_days=_EVER)).report_for("teams")


async def test_a_move_by_an_update_leaves_a_departure_below_the_record_and_again_only_when_it_moves_again(
    bench: Bench,
) -> None:
    first = await begin(bench, team("x", "a", 1), team("y", "a", 1), team("z", "a", 1))
    lines = [team("x", "b", 2), team("y", "b", 2, None), team("z", "a", 2, None)]
    await bench.update({TEAM: lines})
    second = await read_view(bench)
    assert move_documents(second) == {"a/x": ("moved", "b", 4), "a/y": ("moved", "b", 5)}
    documents = {document["id"]: document for document in second.documents}
    assert [documents[name]["sequence"] for name in "xyz"] == [6, 7, 8]
    gone, there = documents["a/x"], documents["x"]
    assert (gone["feed_key"], gone["company"], gone["deleted"], gone["bucket"]) == ("a:a/x", "a", True, bucket("x"))
    assert "proof_high" not in gone.keys() | documents["y"].keys()
    assert (there["bucket"], documents["y"]["bucket"]) == (bucket("x"), bucket("y"))
    assert (there["proof_high"], there["proof_low"]) == split_hash(record_hash("x", there["content"]))
    summary = await bench.update({TEAM: lines})
    assert (summary.report_for("teams").unchanged, await read_view(bench)) == (3, second)
    await bench.update({TEAM: [team("z", "c", 3), team("x", "a", 3), team("y", "c", 3)]})
    third = await read_view(bench)
    assert {name: state[:2] for name, state in move_documents(third).items()} == {
        "a/x": ("moved", "b"),
        "b/x": ("moved", "a"),
        "a/y": ("moved", "b"),
        "b/y": ("deleted", "c"),
        "a/z": ("deleted", "c"),
    }
    assert [wrong_copies(now, [first, second]) for now in (second, third)] == [[], []]


async def test_a_rebuild_leaves_departures_carries_those_that_are_there_and_counts_neither_as_records(
    bench: Bench,
) -> None:
    first = await begin(bench, *[team(name, "a", 1) for name in "vwxyz"])
    await bench.update({TEAM: [team("x", "b", 2), team("w", "a", 2, None)]}, tombstone_days=_EVER)
    second = await read_view(bench)
    source = [team("x", "b", 2), team("y", "c", 2), team("z", "a", 1), team("w", "c", 3)]
    report = await rebuild(bench, *source)
    third = await read_view(bench)
    assert {name: state[:2] for name, state in move_documents(third).items()} == {
        "a/x": ("moved", "b"),
        "a/y": ("moved", "c"),
        "a/w": ("deleted", "c"),
    }
    assert (report.read, report.indexed, report.unchanged, report.vanished, report.carried) == (4, 2, 2, 1, 1)
    assert (report.documents, report.tombstones) == (4, 4)
    assert move_documents(third)["a/x"] == move_documents(second)["a/x"]
    assert [wrong_copies(now, [first, second]) for now in (second, third)] == [[], []]
    again = await rebuild(bench, *source)
    assert (again.indexed, again.vanished, again.carried) == (0, 0, 4)
    assert (await read_view(bench)).documents == third.documents
    with open_source(str(bench.folder)) as of_folder:
        for is_full in (False, True):
            (comparison,) = await verify_against_source(bench.engine(), of_folder, [TEAM], is_full=is_full)
            assert (comparison.is_equal, comparison.compared) == (True, 4)


async def test_what_updates_move_while_the_source_moves_it_too_leads_to_where_it_ends(bench: Bench) -> None:
    """The moves of the reconciliation exist when the updates come: either may supersede the other."""
    first = await begin(bench, *[team(name, "a", 1) for name in "xyz"])
    looks = [first]

    async def meanwhile(own: Bench) -> None:
        await own.update({TEAM: [team("x", "a", 7, "new"), team("y", "b", 3), team("z", "b", 3)]})
        looks.append(await read_view(own))
        await own.update({TEAM: [team("z", "a", 7)]})
        looks.append(await read_view(own))

    write(bench.folder, {TEAM: [team(name, "c", 5) for name in "xyz"]})
    stage = at_stage(RunStage.FINISHING, lambda: run_in_thread(bench, meanwhile))
    assert (await bench.build_folder([TEAM], on_progress=stage, force=True)).exit_code == 0
    now = await read_view(bench)
    assert (now.copy("a"), now.copy("c")) == ({"x": "new", "z": "same"}, {"y": "same"})
    assert move_documents(now)["b/y"][:2] == ("moved", "c")
    assert wrong_copies(now, looks) == []


@pytest.mark.parametrize("text", ['"id":"a/x"', '"id":"x"'])
@pytest.mark.parametrize("is_killed", [True, False])
async def test_an_update_killed_before_or_after_a_move_loses_nothing(bench: Bench, text: str, is_killed: bool) -> None:
    """After a kill its successor recovers it; otherwise the writer does, with the mark that it publishes at its end."""
    first, dying = await begin(bench, team("x", "a", 1), team("y", "a", 1)), bench.writer()
    await dying.apply(pending(team("y", "a", 2, "other")))
    with before(bench.client, "POST /_bulk", kill, having=text), pytest.raises(Killed):
        await dying.apply(pending(team("x", "b", 2)))
    await (expire_lock(bench) if is_killed else dying.publish())
    if not is_killed:
        await dying.release()
    await bench.update({TEAM: [team("y", "a", 3, "new")]})
    await dying.release()
    between = await read_view(bench)
    assert ("a/x" in move_documents(between)) is (text == '"id":"x"')
    assert between.copy("a") == {"x": "same", "y": "new"}
    assert wrong_copies(between, [first]) == []
    await bench.update({TEAM: [team("x", "b", 2)]})
    assert (await read_view(bench)).copy("b") == {"x": "same"}
    assert wrong_copies(await read_view(bench), [first, between]) == []


async def test_the_widest_identifier_moves(bench: Bench) -> None:
    """The document of a move is named after the company and the record, within the 512 bytes of an `_id`."""
    widest = "\u20ac" * 127 + "\U0001f3e0" * 1
    first = await begin(bench, team(widest, "a", 1))
    assert (await bench.update({TEAM: [team(widest, "b", 2)]})).report_for("teams").indexed == 1
    now = await read_view(bench)
    assert (now.copy("a"), now.copy("b")) == ({}, {widest: "same"})
    assert wrong_copies(now, [first]) == []


async def test_a_writer_that_lost_its_lock_republishes_records_above_their_moves(bench: Bench) -> None:
    first, asleep = await begin(bench, team("x", "a", 1), team("y", "a", 1)), bench.writer()
    for company, moment in (("b", 2), ("a", 3)):
        await asleep.apply(pending(team("x", company, moment)))
    await expire_lock(bench)
    await bench.update({TEAM: [team("y", "c", 2)]})
    between = await read_view(bench)
    await asleep.publish()
    await asleep.release()
    now = await read_view(bench)
    assert [wrong_copies(view, [first, between]) for view in (between, now)] == [[], []]
    (record,) = [document for document in now.documents if document["id"] == "x"]
    assert record["sequence"] > max(state[2] for state in move_documents(now).values())


@pytest.mark.parametrize("way", ["prune", "rebuild"])
async def test_how_far_tombstones_are_forgotten_is_published_before_any_is_gone(bench: Bench, way: str) -> None:
    first = await begin(bench, team("x", "a", 1), team("y", "a", 1), team("z", "a", 1))
    await bench.update({TEAM: [team("x", "b", 2), team("y", "a", 2, None)]})
    second = await read_view(bench)
    assert (second.forgotten, len(move_documents(second))) == (0, 1)
    found: list[ConsumerView] = []

    async def look() -> None:
        found.append(await read_view(bench))

    write(bench.folder, {TEAM: [team("x", "b", 2), team("z", "a", 1)]})
    if way == "prune":
        with before(bench.client, "POST /_bulk", *[look] * 9):
            await prune(bench.engine(tombstone_days=0))
    else:
        swap = f"'alias': '{bench.connection.alias(TEAM)}'"
        with before(bench.client, "POST /_aliases", *[look] * 9, having=swap):
            await bench.build_folder([TEAM], tombstone_days=0)
    now = await read_view(bench)
    assert [(view.forgotten, len(view.documents)) for view in found] == [(6, 4)]
    assert (now.forgotten, [document["id"] for document in now.documents]) == (6, ["z", "x"])
    await bench.update({TEAM: [team("z", "a", 2, "new")]})
    await rebuild(bench, team("x", "b", 2), team("z", "a", 1))
    assert (await bench.mark(TEAM)).forgotten == 6
    assert wrong_copies(await read_view(bench), [first, second, now]) == []


async def test_a_mark_of_an_earlier_program_is_read(bench: Bench) -> None:
    await begin(bench, team("x", "a", 1))
    control, alias = bench.connection.control_index, bench.connection.alias(TEAM)
    old = {"clock": 1, "sequence": 2, "epoch": 3, "generation": "teams-v0001"}
    await bench.client.index(index=control, id=mark_id(alias), document=old, refresh=True)
    mark = await read_mark(bench.client, control, alias)
    assert mark is not None
    assert (mark.sequence, mark.epoch, mark.forgotten) == (2, 3, 0)
