"""The mark of a resource: published by the lock holder, in the right epoch, however the previous run ended."""

from typing import NoReturn

import pytest

from cluster.control_index import Mark
from indexer import rollback
from indexer.changes.write_session import WriteSession
from indexer.control import MarkStore
from indexer.errors import LockedError
from mappings import COMPANY, TEAM
from tests.indexer.changes.test_fenced_sessions import apply_updates, expire_lock, stamp, start, team, update_writer
from tests.indexer.conftest import Bench
from tests.indexer.maintenance.test_pruning import build
from tests.records import envelope


class KilledError(Exception):
    """Ends a run in a test."""


async def die(*_: object, **__: object) -> NoReturn:
    raise KilledError


async def test_no_mark_of_a_sleeper_reaches_what_its_successor_has_stamped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    zombie, successor, release = update_writer(bench), update_writer(bench), WriteSession.publish_mark
    await apply_updates(zombie, "early")
    writer = await zombie._open_session()
    for _ in range(5):  # as of documents that were refused: nothing that is live has them
        writer.stamps.next_stamp()

    async def asleep(writer: WriteSession, mark: Mark) -> None:
        monkeypatch.undo()
        await expire_lock(bench)
        await apply_updates(successor, "unseen")
        await release(writer, mark)

    monkeypatch.setattr(WriteSession, "publish_mark", asleep)
    with pytest.raises(LockedError):
        await writer.publish()
    assert (await bench.mark(TEAM)).sequence < (await stamp(bench, "unseen"))[1]
    await successor.publish()
    assert (await bench.mark(TEAM)).sequence == (await stamp(bench, "unseen"))[1]
    await successor.release()
    await zombie.release()


async def test_what_a_killed_update_has_written_is_published_by_the_same_update_which_finds_it_unchanged(
    bench: Bench,
) -> None:
    await start(bench)
    killed = update_writer(bench)
    await apply_updates(killed, "early")
    await expire_lock(bench)
    summary = await bench.update({TEAM: [team("early", "new")]})
    assert (summary.report_for("teams").indexed, summary.report_for("teams").unchanged) == (0, 1)
    assert (await bench.mark(TEAM)).sequence == (await stamp(bench, "early"))[1]
    await killed.release()


async def test_a_mark_whose_response_was_lost_is_published_again_and_stays_ours(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    first = update_writer(bench)
    await apply_updates(first, "early")
    writer, write = await first._open_session(), MarkStore._write

    async def twice(keeper: MarkStore, mark: Mark) -> None:
        over = keeper._condition
        await write(keeper, mark)
        keeper._condition = over
        await write(keeper, mark)

    monkeypatch.setattr(MarkStore, "_write", twice)
    await writer.publish()
    monkeypatch.undo()
    await writer.publish()
    assert (await bench.mark(TEAM)).sequence == (await stamp(bench, "early"))[1]
    await first.release()


async def test_a_rollback_killed_after_its_swap_gets_its_epoch_from_the_next_writer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await build(bench, "old")
    await build(bench, "new")
    before = await bench.mark(COMPANY)
    monkeypatch.setattr(WriteSession, "publish_mark", die)
    with pytest.raises(KilledError):
        await rollback(bench.engine(), COMPANY)
    monkeypatch.undo()
    assert (await bench.live(COMPANY), await bench.mark(COMPANY)) == ("companies-v0001", before)
    await bench.update({COMPANY: [envelope(COMPANY, {"name": "old"})]})  # which is what is live
    after = await bench.mark(COMPANY)
    assert (after.epoch, after.generation) == (before.epoch + 1, f"{bench.connection.prefix}companies-v0001")


async def test_a_rebuild_killed_after_its_swap_keeps_the_epoch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await start(bench)
    monkeypatch.setattr(WriteSession, "publish_mark", die)
    with pytest.raises(KilledError):
        await bench.build({TEAM: [envelope(TEAM), team("built", "new")]})
    monkeypatch.undo()
    await bench.update({TEAM: [team("later", "new")]})
    mark = await bench.mark(TEAM)
    assert (mark.epoch, mark.generation) == (0, f"{bench.connection.prefix}teams-v0002")


async def test_a_repeated_first_build_killed_after_its_swap_gets_its_epoch_from_the_next_writer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    before = await bench.mark(TEAM)
    await bench.client.indices.delete(index=f"{bench.connection.alias(TEAM)}-v0001")
    monkeypatch.setattr(MarkStore, "publish", die)
    with pytest.raises(KilledError):
        await bench.build({TEAM: [envelope(TEAM)]})
    monkeypatch.undo()
    await bench.update({TEAM: [team("later", "new")]})
    after = await bench.mark(TEAM)
    assert after.epoch == before.epoch + 1
    assert after.sequence >= (await stamp(bench, "later"))[1]
