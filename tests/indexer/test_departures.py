"""Departures: what is stored of a record that leaves a company, and that nothing that goes wrong ever loses one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from cluster.control import mark_id, read_mark
from indexer import EngineError, Stage, open_source, prune
from indexer.bulk import Sender
from indexer.companies import Companies
from indexer.desk import Desk
from indexer.fate import newest
from indexer.intake import Chunk, Intake
from indexer.lifecycle import Lifecycle
from indexer.pace import Pace
from indexer.source import Line
from indexer.tombstones import _delete
from indexer.verify import against_source
from mappings import TEAM
from mappings.digest import bucket, halves, record_hash
from tests.indexer.consumers import KEYS, Look, astray, begin, departures, look, team
from tests.indexer.model import at, beside
from tests.indexer.test_zombie import declare_dead
from tests.records import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.bulk import Verdict, Write
    from indexer.documents import Draft
    from indexer.report import ResourceReport
    from tests.indexer.conftest import Bench

_EVER = 36_500.0


def break_at(monkeypatch: pytest.MonkeyPatch, text: bytes, error: Exception) -> None:
    """Let the first request fail that would write a document with this text."""
    original = Sender.send
    waiting = [error]

    async def send(self: Sender, writes: Sequence[Write]) -> Verdict:
        if waiting and any(text in write.source for write in writes):
            raise waiting.pop()
        return await original(self, writes)

    monkeypatch.setattr(Sender, "send", send)


def desk(bench: Bench) -> Desk:
    """Return a desk of the teams."""
    return Desk(bench.engine(), TEAM, Pace(bench.settings), lambda _: None)


def drafts(*teams: dict[str, Any]) -> dict[str, Draft]:
    """Return the drafts of envelopes."""
    intake = Intake(TEAM, Companies(set(KEYS)))
    return newest([intake.accept(Line("file", 1, orjson.dumps(each)), Chunk()) for each in teams])


async def rebuild(bench: Bench, *teams: dict[str, Any]) -> ResourceReport:
    """Rebuild the teams, keeping all tombstones, and return what was counted."""
    write(bench.folder, {TEAM: teams})
    return (await bench.build_folder([TEAM], tombstone_days=_EVER)).of("teams")


async def test_a_move_by_an_update_leaves_a_departure_below_the_record_and_again_only_when_it_moves_again(
    bench: Bench,
) -> None:
    first = await begin(bench, team("x", "a", 1), team("y", "a", 1), team("z", "a", 1))
    lines = [team("x", "b", 2), team("y", "b", 2, None), team("z", "a", 2, None)]
    await bench.update({TEAM: lines})
    second = await look(bench)
    assert departures(second) == {"a/x": ("moved", "b", 4), "a/y": ("moved", "b", 5)}
    documents = {each["id"]: each for each in second.documents}
    assert [documents[each]["sequence"] for each in "xyz"] == [6, 7, 8]
    gone, there = documents["a/x"], documents["x"]
    assert (gone["feed_key"], gone["company"], gone["deleted"], gone["bucket"]) == ("a:a/x", "a", True, bucket("x"))
    assert "proof_high" not in gone.keys() | documents["y"].keys()
    assert (there["bucket"], documents["y"]["bucket"]) == (bucket("x"), bucket("y"))
    assert (there["proof_high"], there["proof_low"]) == halves(record_hash("x", there["content"]))
    summary = await bench.update({TEAM: lines})
    assert (summary.of("teams").unchanged, await look(bench)) == (3, second)
    await bench.update({TEAM: [team("z", "c", 3), team("x", "a", 3), team("y", "c", 3)]})
    third = await look(bench)
    assert {each: told[:2] for each, told in departures(third).items()} == {
        "a/x": ("moved", "b"),
        "b/x": ("moved", "a"),
        "a/y": ("moved", "b"),
        "b/y": ("deleted", "c"),
        "a/z": ("deleted", "c"),
    }
    assert [astray(now, [first, second]) for now in (second, third)] == [[], []]


async def test_a_rebuild_leaves_departures_carries_those_that_are_there_and_counts_neither_as_records(
    bench: Bench,
) -> None:
    first = await begin(bench, *[team(name, "a", 1) for name in "vwxyz"])
    await bench.update({TEAM: [team("x", "b", 2), team("w", "a", 2, None)]}, tombstone_days=_EVER)
    second = await look(bench)
    source = [team("x", "b", 2), team("y", "c", 2), team("z", "a", 1), team("w", "c", 3)]
    report = await rebuild(bench, *source)
    third = await look(bench)
    assert {each: told[:2] for each, told in departures(third).items()} == {
        "a/x": ("moved", "b"),
        "a/y": ("moved", "c"),
        "a/w": ("deleted", "c"),
    }
    assert (report.read, report.indexed, report.unchanged, report.vanished, report.carried) == (4, 2, 2, 1, 1)
    assert (report.documents, report.tombstones) == (4, 4)
    assert departures(third)["a/x"] == departures(second)["a/x"]
    assert [astray(now, [first, second]) for now in (second, third)] == [[], []]
    again = await rebuild(bench, *source)
    assert (again.indexed, again.vanished, again.carried) == (0, 0, 4)
    assert (await look(bench)).documents == third.documents
    with open_source(str(bench.folder)) as of_folder:
        for is_full in (False, True):
            (comparison,) = await against_source(bench.engine(), of_folder, [TEAM], is_full=is_full)
            assert (comparison.is_equal, comparison.compared) == (True, 4)


async def test_what_updates_move_while_the_source_moves_it_too_leads_to_where_it_ends(bench: Bench) -> None:
    """The departures of the comparison are there when they come: the source overrules them, or they the source."""
    first = await begin(bench, *[team(name, "a", 1) for name in "xyz"])
    looks = [first]

    async def meanwhile(own: Bench) -> None:
        await own.update({TEAM: [team("x", "a", 7, "new"), team("y", "b", 3), team("z", "b", 3)]})
        looks.append(await look(own))
        await own.update({TEAM: [team("z", "a", 7)]})
        looks.append(await look(own))

    write(bench.folder, {TEAM: [team(name, "c", 5) for name in "xyz"]})
    stage = at(Stage.FINISHING, lambda: beside(bench, meanwhile))
    assert (await bench.build_folder([TEAM], on_progress=stage)).exit_code == 0
    now = await look(bench)
    assert (now.copy("a"), now.copy("c")) == ({"x": "new", "z": "same"}, {"y": "same"})
    assert departures(now)["b/y"][:2] == ("moved", "c")
    assert astray(now, looks) == []


@pytest.mark.parametrize("text", [b'"id":"a/x"', b'"id":"x"'])
@pytest.mark.parametrize("is_killed", [True, False])
async def test_an_update_that_dies_before_or_behind_a_departure_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, text: bytes, is_killed: bool
) -> None:
    """Killed, its successor makes up for it; else it does so itself, with the mark that it publishes at its end."""
    first, dying = await begin(bench, team("x", "a", 1), team("y", "a", 1)), desk(bench)
    await dying.apply(drafts(team("y", "a", 2, "other")))
    with monkeypatch.context() as broken:
        break_at(broken, text, EngineError("broken"))
        with pytest.raises(EngineError):
            await dying.apply(drafts(team("x", "b", 2)))
    await (declare_dead(bench) if is_killed else dying.publish())
    if not is_killed:
        await dying.rest()
    await bench.update({TEAM: [team("y", "a", 3, "new")]})
    await dying.rest()
    between = await look(bench)
    assert ("a/x" in departures(between)) is (text == b'"id":"x"')
    assert between.copy("a") == {"x": "same", "y": "new"}
    assert astray(between, [first]) == []
    await bench.update({TEAM: [team("x", "b", 2)]})
    assert (await look(bench)).copy("b") == {"x": "same"}
    assert astray(await look(bench), [first, between]) == []


async def test_a_record_whose_departure_has_no_room_in_an_id_stays_where_it_is(bench: Bench) -> None:
    """Elasticsearch takes ids of 512 bytes, which a record's own may have."""
    widest = "\U0001f3e0" * 128
    first = await begin(bench, team(widest, "a", 1), team("x", "a", 1))
    summary = await bench.update({TEAM: [team(widest, "b", 2), team("x", "b", 2)]})
    assert (summary.of("teams").dead, summary.of("teams").indexed) == (1, 1)
    assert "512" in bench.letters()[0]["reason"]
    now = await look(bench)
    assert (now.copy("a"), now.copy("b")) == ({widest: "same"}, {"x": "same"})
    assert astray(now, [first]) == []


async def test_a_writer_that_lost_its_lock_tells_records_again_above_their_departures(bench: Bench) -> None:
    first, asleep = await begin(bench, team("x", "a", 1), team("y", "a", 1)), desk(bench)
    for company, moment in (("b", 2), ("a", 3)):
        await asleep.apply(drafts(team("x", company, moment)))
    await declare_dead(bench)
    await bench.update({TEAM: [team("y", "c", 2)]})
    between = await look(bench)
    await asleep.publish()
    await asleep.rest()
    now = await look(bench)
    assert [astray(each, [first, between]) for each in (between, now)] == [[], []]
    (record,) = [each for each in now.documents if each["id"] == "x"]
    assert record["sequence"] > max(told[2] for told in departures(now).values())


@pytest.mark.parametrize("way", ["prune", "rebuild"])
async def test_how_far_tombstones_are_forgotten_is_published_before_any_is_gone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    first = await begin(bench, team("x", "a", 1), team("y", "a", 1), team("z", "a", 1))
    await bench.update({TEAM: [team("x", "b", 2), team("y", "a", 2, None)]})
    second = await look(bench)
    assert (second.forgotten, len(departures(second))) == (0, 1)
    found: list[Look] = []

    async def seen(*given: Any, **options: Any) -> Any:
        found.append(await look(bench))
        return await original(*given, **options)

    original: Any = _delete if way == "prune" else Lifecycle.swap
    with monkeypatch.context() as watched:
        if way == "prune":
            watched.setattr("indexer.tombstones._delete", seen)
            await prune(bench.engine(tombstone_days=0))
        else:
            watched.setattr(Lifecycle, "swap", seen)
            write(bench.folder, {TEAM: [team("x", "b", 2), team("z", "a", 1)]})
            await bench.build_folder([TEAM], tombstone_days=0)
    now = await look(bench)
    assert [(each.forgotten, len(each.documents)) for each in found] == [(6, 4)]
    assert (now.forgotten, [each["id"] for each in now.documents]) == (6, ["z", "x"])
    await bench.update({TEAM: [team("z", "a", 2, "new")]})
    await rebuild(bench, team("x", "b", 2), team("z", "a", 1))
    assert (await bench.mark(TEAM)).forgotten == 6
    assert astray(await look(bench), [first, second, now]) == []


async def test_a_mark_of_an_earlier_program_is_read(bench: Bench) -> None:
    await begin(bench, team("x", "a", 1))
    control, alias = bench.connection.control_index, bench.connection.alias(TEAM)
    old = {"clock": 1, "sequence": 2, "epoch": 3, "generation": "teams-v0001"}
    await bench.client.index(index=control, id=mark_id(alias), document=old, refresh=True)
    mark = await read_mark(bench.client, control, alias)
    assert mark is not None
    assert (mark.sequence, mark.epoch, mark.forgotten) == (2, 3, 0)
