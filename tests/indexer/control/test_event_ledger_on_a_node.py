"""Events on a real node: a consumer that polls after its last event misses nothing, whatever happens to the writers."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from elasticsearch import ConnectionError  # noqa: A004 - the client's name for it

from cluster.control_index import HEAD_ID
from indexer import prune, rollback
from indexer.after_publish import PublicationPace, after_publish
from indexer.reso.event_ledger import publish_events
from mappings import COMPANY, OFFICE, TEAM
from tests.indexer.changing_sources import changes, first
from tests.indexer.client_requests import Killed, before, behind, kill, lose
from tests.indexer.conftest import Bench
from tests.indexer.control.event_follower import following
from tests.indexer.faults.process_killer import KillPoint, killer
from tests.internals import Internals
from tests.records import deletion, envelope

NEWER = "2026-03-03T00:00:00Z"


def team(name: str, text: str = "new", updated_at: str = NEWER) -> dict[str, Any]:
    return envelope(TEAM, {"uuid": name, "name": text}, updated_at=updated_at)


def office(name: str, text: str = "new", updated_at: str = NEWER) -> dict[str, Any]:
    return envelope(OFFICE, {"platform_office_id": name, "name": text}, updated_at=updated_at)


@pytest.fixture(autouse=True)
def numbers_begin_at_1(internals: Internals) -> None:
    """Let tests name numbers: a new ledger begins with the time."""
    internals(ledger_time=int)


async def start(bench: Bench) -> None:
    """Build a company, two teams and two offices."""
    lines = {
        COMPANY: [envelope(COMPANY)],
        TEAM: [team("t1"), team("t2")],
        OFFICE: [office("o1"), office("o2")],
    }
    assert (await bench.build(lines)).exit_code == 0


async def test_the_first_builds_are_published_resource_by_resource_without_a_gap(bench: Bench) -> None:
    await start(bench)
    async with following(bench) as follower:
        assert await follower.poll() == [1, 2, 3, 4, 5]
        assert follower.copy == await follower.live()
        assert (await follower.ledger()).horizon({TEAM.alias: await bench.mark(TEAM)}) == 1


async def test_concurrent_updates_of_two_resources_are_published_completely_and_in_order(
    bench: Bench, amount: Callable[[int, int], int]
) -> None:
    await start(bench)

    async def stream(resource: Any, line: Callable[[str, str, str], dict[str, Any]]) -> None:
        for number in range(amount(12, 500)):
            at = f"2026-04-{1 + number // 1440:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"
            lines = [line(f"n{number}", "new", at), line(f"x{number % 3}", f"at {number}", at)]
            assert (await bench.update({resource: lines})).exit_code == 0

    async with following(bench) as follower:
        await follower.until(asyncio.gather(stream(TEAM, team), stream(OFFICE, office)))
        assert follower.copy == await follower.live()
        assert follower.polls > 5


async def update_nothing(bench: Bench) -> None:
    """Apply updates that are live already."""
    await bench.update({OFFICE: [office("o1")]})


async def rebuild_another(bench: Bench) -> None:
    """Rebuild without changes."""
    await bench.build({OFFICE: [office("o1"), office("o2")]})


async def prune_nothing(bench: Bench) -> None:
    await prune(bench.engine())


@pytest.mark.parametrize("next_run", [update_nothing, rebuild_another, prune_nothing])
async def test_a_change_of_a_killed_run_is_published_by_the_next_run_of_any_kind(
    bench: Bench, next_run: Callable[[Bench], Awaitable[None]]
) -> None:
    await start(bench)
    with before(bench.client, "POST /_mget", *[kill] * 9, having=f"'{HEAD_ID}'"), pytest.raises(Killed):
        await bench.update({TEAM: [team("t3")]})
    async with following(bench) as follower:
        assert await follower.poll() == [1, 2, 3, 4, 5]
        await next_run(bench)
        assert await follower.poll() == [6]
        assert follower.copy == await follower.live()


async def test_an_update_that_is_killed_again_and_again_loses_no_event(
    bench: Bench, amount: Callable[[int, int], int]
) -> None:
    count, settings = amount(300, 10_000), {"BROKERAGE_BULK_DOCUMENTS": "25"}
    await start(bench)
    for seed in range(amount(1, 7)):
        chance = random.Random(seed)  # noqa: S311 - repeatable
        moments = [KillPoint("reading", chance.randint(2, 40), is_effective=chance.random() < 0.5) for _ in range(3)]
        path = str(changes(bench, first(count)))
        async with killer(bench, seed) as doing, following(bench) as follower:
            run = asyncio.create_task(doing.run(moments, "update", path, between=nothing, **settings))
            await follower.until(run)
            assert doing.kills
            assert follower.copy == await follower.live()


async def nothing() -> None:
    """Do nothing between two runs."""


async def test_a_rebuild_publishes_only_what_it_has_changed(bench: Bench) -> None:
    await start(bench)
    async with following(bench) as follower:
        await follower.poll()
        assert (await bench.build({TEAM: [team("t1"), team("t2", "other"), team("t3")]})).exit_code == 0
        assert await follower.poll() == [6, 7]
        assert follower.copy == await follower.live()


async def test_a_rollback_publishes_its_resource_again_and_requires_a_comparison(bench: Bench) -> None:
    await start(bench)
    assert (await bench.build({TEAM: [team("t1"), team("t2", "other"), team("t3")]})).exit_code == 0
    async with following(bench) as follower:
        await follower.poll()
        before, known = follower.last, dict(follower.published)
        await rollback(bench.engine(), TEAM)
        assert await follower.poll() == [before + 1, before + 2]
        assert {alias for number, (alias, _) in follower.published.items() if number not in known} == {TEAM.alias}
        # A team that came with the rebuild has gone without a word.
        assert follower.copy.keys() - (await follower.live()).keys() == {(TEAM.alias, "t3")}
        ledger = await follower.ledger()
        assert before < ledger.horizon({}) <= follower.last


async def test_a_tombstone_that_is_pruned_raises_the_horizon_to_its_event(bench: Bench) -> None:
    await start(bench)
    await bench.update({TEAM: [deletion(TEAM, "t1", "2026-03-04T00:00:00Z"), team("t4")]})
    async with following(bench) as follower:
        await follower.poll()
        published = {place: number for number, place in follower.published.items()}
        gone = follower.copy[TEAM.alias, "t1"]
        await prune(bench.engine(tombstone_days=-1))
        horizon = (await follower.ledger()).horizon({TEAM.alias: await bench.mark(TEAM)})
        assert horizon == published[TEAM.alias, gone.sequence]


async def test_without_a_ledger_the_next_run_publishes_every_resource(bench: Bench) -> None:
    await start(bench)
    await bench.client.delete(index=bench.connection.control_index, id=HEAD_ID)
    async with following(bench) as follower:
        assert await follower.poll() == []
        await bench.update({TEAM: [team("t3")]})
        assert await follower.poll() == [1, 2, 3, 4, 5, 6]
        assert follower.copy == await follower.live()


async def test_concurrent_publishers_publish_everything_once(bench: Bench, internals: Internals) -> None:
    internals(publications_per_archive=3)
    await start(bench)
    async with following(bench) as follower:
        for number in range(8):
            lines = {TEAM: [team(f"t{number}", "t")], OFFICE: [office(f"o{number}", "o")]}
            with before(bench.client, "POST /_mget", *[kill] * 9, having=f"'{HEAD_ID}'"), pytest.raises(Killed):
                await bench.update(lines)
            await asyncio.gather(*(publish_events(bench.engine()) for _ in range(10)))
            await follower.poll()
        assert follower.copy == await follower.live()
        assert (await follower.ledger()).head.archived > 1
        assert len(follower.published) == (await follower.ledger()).end


async def test_above_the_maximum_everything_is_published_again_and_no_archive_is_left(
    bench: Bench, internals: Internals
) -> None:
    internals(publications_per_archive=3, most_publications=9)
    await start(bench)
    async with following(bench) as follower:
        while not (head := (await follower.ledger()).head).first:
            at = f"2026-04-03T00:{head.end:02}:00Z"
            await bench.update({TEAM: [team("t1", at, at)]})
            await bench.update({OFFICE: [office("o1", at, at)]})
            await follower.poll()
        assert follower.copy == await follower.live()
        assert len(head.publications) <= 4
        kept = [f"{HEAD_ID}-{number:06}" for number in range(head.archived + 1)]
        found = await bench.client.mget(index=bench.connection.control_index, ids=kept)
        assert [document["found"] for document in found["docs"]] == [False] * len(kept)


async def test_a_mark_published_during_another_append_is_appended_by_its_own_run(bench: Bench) -> None:
    await start(bench)
    mark = "PUT /_doc/mark-"
    with before(bench.client, mark, lambda: publish_events(bench.engine())) as marks:
        await bench.update({TEAM: [team("t3")]})
    async with following(bench) as follower:
        assert marks.count
        assert await follower.poll() == [1, 2, 3, 4, 5, 6]


def test_a_run_may_let_the_ledger_grow_fast_for_a_while_and_slowly_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pacing = 1_000.0, PublicationPace()
    monkeypatch.setattr("indexer.after_publish.time.monotonic", lambda: now)
    assert [pacing.allows(2) for _ in range(51)] == [True] * 50 + [False]
    assert pacing.allows(0)
    now += 119.0
    assert not pacing.allows(2)
    now += 1.0
    assert pacing.allows(2)
    assert not pacing.allows(1)


async def test_a_run_that_fails_does_not_wait_for_its_events(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)]})
    with behind(bench.client, "POST /_mget", *[lose] * 100) as reads, pytest.raises(ConnectionError):
        await after_publish(bench.engine(), seconds=0.0)
    assert reads.count == 1
