"""The mark of a resource: published by who holds the lock, in the right epoch, however the run before has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from indexer import rollback
from indexer.errors import LockedError
from indexer.marks import MarkKeeper
from indexer.writer import Writer
from mappings import COMPANY, TEAM
from tests.indexer.test_upkeep import build
from tests.indexer.test_zombie import declare_dead, desk, hand_in, stamp, start, team
from tests.records import envelope

if TYPE_CHECKING:
    from typing import NoReturn

    from cluster.control import Mark
    from tests.indexer.conftest import Bench


class KilledError(Exception):
    """What a test ends a run with."""


async def die(*_: object, **__: object) -> NoReturn:
    """End the run."""
    raise KilledError


async def test_no_mark_of_a_sleeper_reaches_what_its_successor_has_stamped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    zombie, successor, release = desk(bench), desk(bench), Writer.release_mark
    await hand_in(zombie, "early")
    writer = await zombie._opened()
    for _ in range(5):  # as of documents that were refused: nothing that is live has them
        writer.stamps.fresh()

    async def asleep(writer: Writer, mark: Mark) -> None:
        monkeypatch.undo()
        await declare_dead(bench)
        await hand_in(successor, "unseen")
        await release(writer, mark)

    monkeypatch.setattr(Writer, "release_mark", asleep)
    with pytest.raises(LockedError):
        await writer.publish()
    assert (await bench.mark(TEAM)).sequence < (await stamp(bench, "unseen"))[1]
    await successor.publish()
    assert (await bench.mark(TEAM)).sequence == (await stamp(bench, "unseen"))[1]
    await successor.rest()
    await zombie.rest()


async def test_a_mark_whose_answer_was_lost_is_published_once_more_and_stays_ours(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    first = desk(bench)
    await hand_in(first, "early")
    writer, write = await first._opened(), MarkKeeper._write

    async def twice(keeper: MarkKeeper, mark: Mark) -> None:
        over = keeper._over
        await write(keeper, mark)
        keeper._over = over
        await write(keeper, mark)

    monkeypatch.setattr(MarkKeeper, "_write", twice)
    await writer.publish()
    monkeypatch.undo()
    await writer.publish()
    assert (await bench.mark(TEAM)).sequence == (await stamp(bench, "early"))[1]
    await first.rest()


async def test_a_rollback_that_dies_behind_its_swap_has_its_epoch_from_the_next_writer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await build(bench, "old")
    await build(bench, "new")
    before = await bench.mark(COMPANY)
    monkeypatch.setattr(Writer, "release_mark", die)
    with pytest.raises(KilledError):
        await rollback(bench.engine(), COMPANY)
    monkeypatch.undo()
    assert (await bench.live(COMPANY), await bench.mark(COMPANY)) == ("companies-v0001", before)
    await bench.update({COMPANY: [envelope(COMPANY, {"name": "old"})]})  # which is what is live
    after = await bench.mark(COMPANY)
    assert (after.epoch, after.generation) == (before.epoch + 1, f"{bench.connection.prefix}companies-v0001")


async def test_a_rebuild_that_dies_behind_its_swap_leaves_the_epoch_as_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    monkeypatch.setattr(Writer, "release_mark", die)
    with pytest.raises(KilledError):
        await bench.build({TEAM: [envelope(TEAM), team("built", "new")]})
    monkeypatch.undo()
    await bench.update({TEAM: [team("later", "new")]})
    mark = await bench.mark(TEAM)
    assert (mark.epoch, mark.generation) == (0, f"{bench.connection.prefix}teams-v0002")


async def test_a_first_build_that_dies_behind_its_swap_where_there_was_another_has_its_epoch_from_the_next_writer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(bench)
    before = await bench.mark(TEAM)
    await bench.client.indices.delete(index=f"{bench.connection.alias(TEAM)}-v0001")
    monkeypatch.setattr(MarkKeeper, "publish", die)
    with pytest.raises(KilledError):
        await bench.build({TEAM: [envelope(TEAM)]})
    monkeypatch.undo()
    await bench.update({TEAM: [team("later", "new")]})
    after = await bench.mark(TEAM)
    assert after.epoch == before.epoch + 1
    assert after.sequence >= (await stamp(bench, "later"))[1]
