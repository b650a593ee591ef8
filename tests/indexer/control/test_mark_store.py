"""The mark of a resource: published by the lock holder, in the right epoch, however the previous run ended."""

from collections.abc import Awaitable, Callable

import pytest

from indexer import rollback
from indexer.errors import LockedError
from mappings import TEAM
from tests.indexer.changes.test_fenced_sessions import apply_updates, expire_lock, stamp, start, team
from tests.indexer.client_requests import Act, before, behind, lose
from tests.indexer.conftest import Bench
from tests.indexer.lock.test_distributed_lock import nothing
from tests.records import envelope

MARK = "PUT /_doc/mark-"


class KilledError(Exception):
    """Ends a run in a test."""


def die() -> None:
    raise KilledError


async def test_no_mark_of_a_sleeper_reaches_what_its_successor_has_stamped(bench: Bench) -> None:
    await start(bench)
    zombie, successor = bench.writer(), bench.writer()
    await apply_updates(zombie, "early")
    session = await zombie.open_session()
    for _ in range(5):  # as of documents that were refused: nothing that is live has them
        session.stamps.next_stamp()

    async def overtake() -> None:
        await expire_lock(bench)
        await apply_updates(successor, "unseen")

    with before(bench.client, MARK, overtake), pytest.raises(LockedError):
        await session.publish()
    assert (await bench.mark(TEAM)).sequence < (await stamp(bench, "unseen"))[1]
    await successor.publish()
    assert (await bench.mark(TEAM)).sequence == (await stamp(bench, "unseen"))[1]
    await successor.release()
    await zombie.release()


async def test_what_a_killed_update_has_written_is_published_by_the_same_update_which_finds_it_unchanged(
    bench: Bench,
) -> None:
    await start(bench)
    killed = bench.writer()
    await apply_updates(killed, "early")
    await expire_lock(bench)
    report = (await bench.update({TEAM: [team("early", "new")]})).report_for("teams")
    assert (report.indexed, report.unchanged) == (0, 1)
    assert (await bench.mark(TEAM)).sequence == (await stamp(bench, "early"))[1]
    await killed.release()


async def test_a_mark_whose_response_was_lost_is_published_again_and_stays_ours(bench: Bench) -> None:
    await start(bench)
    writer = bench.writer()
    await apply_updates(writer, "early")
    session = await writer.open_session()
    with behind(bench.client, MARK, lose):
        await session.publish()
    await session.publish()
    assert (await bench.mark(TEAM)).sequence == (await stamp(bench, "early"))[1]
    await writer.release()


async def roll_back(bench: Bench) -> None:
    await bench.build({TEAM: [envelope(TEAM), team("new", "new")]})
    await rollback(bench.engine(), TEAM)


async def rebuild(bench: Bench) -> None:
    await bench.build({TEAM: [envelope(TEAM), team("built", "new")]})


async def build_again(bench: Bench) -> None:
    """Build what was lost with its index."""
    await bench.client.indices.delete(index=f"{bench.connection.alias(TEAM)}-v0001")
    await bench.build({TEAM: [envelope(TEAM)]})


@pytest.mark.parametrize(
    ("run", "acts", "epochs", "live"),
    [
        # Of a rollback after a rebuild: each claims the mark, and publishes it after its swap.
        (roll_back, [nothing, nothing, nothing, die], 1, "teams-v0001"),
        (rebuild, [nothing, die], 0, "teams-v0002"),
        (build_again, [die], 1, "teams-v0002"),
    ],
    ids=["rollback", "rebuild", "first build"],
)
async def test_a_run_killed_between_its_swap_and_its_mark_gets_its_epoch_from_the_next_writer(
    bench: Bench, run: Callable[[Bench], Awaitable[None]], acts: list[Act], epochs: int, live: str
) -> None:
    await start(bench)
    begun = await bench.mark(TEAM)
    with before(bench.client, f"{MARK}{bench.connection.alias(TEAM)}", *acts), pytest.raises(KilledError):
        await run(bench)
    assert await bench.live(TEAM) == live
    assert (await bench.mark(TEAM)).epoch == begun.epoch
    await bench.update({TEAM: [team("later", "new")]})
    after = await bench.mark(TEAM)
    assert (after.epoch, after.generation) == (begun.epoch + epochs, f"{bench.connection.prefix}{live}")
    assert after.sequence >= (await stamp(bench, "later"))[1]
