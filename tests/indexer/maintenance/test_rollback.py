"""Rollback: the earlier generation returns with every update since, atomically, under a higher epoch."""

import asyncio
from dataclasses import replace

import pytest

from indexer import RefusedError, rollback, rollback_target
from indexer.generations.lifecycle import GenerationLifecycle
from mappings import COMPANY, TEAM, Resource
from tests.indexer.bulk_writes import proxied_client
from tests.indexer.conftest import Bench
from tests.indexer.dated_teams import DAYS, start, team
from tests.indexer.live_watch import stamps
from tests.indexer.maintenance.test_pruning import build, company_name
from tests.indexer.parsed_lines import parse_line
from tests.network.bulk_proxy import RequestProxy
from tests.network.http import Reply, Request
from tests.records import deletion


async def test_a_rollback_brings_back_what_was_replaced_and_raises_the_epoch(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    before = await bench.mark(COMPANY)
    prefix = bench.connection.prefix
    assert await rollback_target(bench.engine(), COMPANY) == (f"{prefix}companies-v0002", f"{prefix}companies-v0001")
    assert await rollback(bench.engine(), COMPANY) == f"{prefix}companies-v0001"
    assert await company_name(bench) == "old"
    after = await bench.mark(COMPANY)
    assert (after.epoch, after.generation) == (before.epoch + 1, f"{prefix}companies-v0001")
    assert after.clock >= before.clock
    assert after.sequence == before.sequence
    with pytest.raises(RefusedError, match="no earlier version"):
        await rollback(bench.engine(), COMPANY)


async def test_after_a_rollback_the_next_build_replaces_what_was_brought_back(bench: Bench) -> None:
    await build(bench, "good")
    await build(bench, "bad")
    await rollback(bench.engine(), COMPANY)
    await build(bench, "better")
    assert await bench.indices() == ["companies-v0001", "companies-v0003"]
    await rollback(bench.engine(), COMPANY)
    assert await company_name(bench) == "good"
    assert (await bench.mark(COMPANY)).epoch == 2


async def test_updates_since_the_swap_are_in_what_comes_back(bench: Bench) -> None:
    await start(bench, *(team("first", 0, identifier) for identifier in ("t", "u", "d", "o")))
    await bench.update({TEAM: [team("before the build", 1, "o")]})
    await start(bench, *(team("bad", 2, identifier) for identifier in ("t", "u", "d", "o", "b")))
    await bench.update({TEAM: [team("since", 3, "u"), deletion(TEAM, "d", DAYS[3]), team("since", 3, "n")]})
    assert (await bench.names())["b"] == "bad"
    await rollback(bench.engine(), TEAM)
    assert await bench.names() == {"t": "first", "u": "since", "d": None, "o": "before the build", "n": "since"}


async def test_updates_that_were_late_for_the_live_generation_are_in_what_comes_back(bench: Bench) -> None:
    await start(bench, team("first", 0), team("first", 6, "u"), team("first", 0, "d"))
    await start(bench, team("bad", 9), team("bad", 9, "u"), team("bad", 9, "d"))
    summary = await bench.update({TEAM: [team("late", 5), team("late", 5, "u"), deletion(TEAM, "d", DAYS[5])]})
    assert summary.report_for("teams").stale == 3
    assert await bench.names() == {"t": "bad", "u": "bad", "d": "bad"}
    await rollback(bench.engine(), TEAM)
    assert await bench.names() == {"t": "late", "u": "first", "d": None}
    mark = await bench.mark(TEAM)
    assert all(clock <= mark.clock and sequence <= mark.sequence for clock, sequence in (await stamps(bench)).values())


async def test_what_was_late_and_what_came_since_have_no_sequence_in_common(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await start(bench, team("bad", 9))
    await bench.update({TEAM: [team("late", 5)]})
    await bench.update({TEAM: [team("since", 9, "n")]})
    await rollback(bench.engine(), TEAM)
    assert await bench.names() == {"t": "late", "n": "since"}
    found = await stamps(bench)
    assert len({sequence for _, sequence in found.values()}) == len(found)


async def test_a_late_update_makes_no_index_of_a_generation_that_is_not_kept(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await start(bench, team("second", 9))
    engine = bench.engine(kept_generations=1)
    writer, lifecycle = bench.writer(kept_generations=1), GenerationLifecycle(engine, TEAM)
    await writer.apply({"n": parse_line(TEAM, team("new", 1, "n"))})
    await lifecycle.prune(await lifecycle.generations())
    outcome = await writer.apply({"t": parse_line(TEAM, team("late", 5))})
    await writer.publish()
    await writer.release()
    assert len(outcome.stale) == 1
    assert [index for index in await bench.indices() if "teams" in index] == ["teams-v0002"]


async def test_an_earlier_generation_of_another_shape_is_refused(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    prefix = bench.connection.prefix
    await bench.client.indices.put_mapping(index=f"{prefix}companies-v0001", meta={"fingerprint": "another"})
    said = f"{prefix}companies-v0001 has a different schema than this program declares"
    with pytest.raises(RefusedError, match=said):
        await rollback_target(bench.engine(), COMPANY)
    with pytest.raises(RefusedError, match=said):
        await rollback(bench.engine(), COMPANY)
    assert (await bench.live(COMPANY), await company_name(bench)) == ("companies-v0002", "new")


async def test_a_rollback_during_updates_loses_none(bench: Bench) -> None:
    await start(bench, team("first", 0))
    await start(bench, team("bad", 1))
    done, begun, over = 0, asyncio.Event(), asyncio.Event()

    async def updating() -> None:
        nonlocal done
        while not over.is_set() or done < 3:
            await bench.update({TEAM: [team("update", 2, f"n{done}"), team(f"update {done}", 2 + done, "u")]})
            done += 1
            begun.set()

    stream = asyncio.create_task(updating())
    await begun.wait()
    await rollback(bench.engine(), TEAM)
    at_rollback = done
    over.set()
    await stream
    new = {f"n{number}": "update" for number in range(done)}
    assert await bench.names() == {"t": "first", "u": f"update {done - 1}"} | new
    assert (await bench.mark(TEAM)).epoch == 1
    assert at_rollback > 0


class RecordingProxy(RequestProxy):
    """Keeps what it forwards."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.requests: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        return await super().reply(request)

    def to(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path.endswith(path)]


async def rolled_back(bench: Bench, resource: Resource) -> RecordingProxy:
    """Roll a resource back, and return the proxy through which that went."""
    proxy = RecordingProxy(bench.connection.url[0])
    async with proxied_client(bench, proxy) as client:
        await rollback(replace(bench.engine(), client=client), resource)
    return proxy


async def test_the_requests_of_a_rollback_can_be_waited_for_by_the_next_run(bench: Bench) -> None:
    await start(bench)
    await start(bench)
    assert (await bench.update({TEAM: [team("a", 1, "newer")]})).exit_code == 0
    bulks = (await rolled_back(bench, TEAM)).to("/_bulk")
    named = [{name.lower(): value for name, value in bulk.headers.items()}["x-opaque-id"] for bulk in bulks]
    assert {name.rpartition("-")[0].rpartition("-")[0] for name in named} == {"brokerage-run"}


async def test_a_rollback_moves_the_alias_in_one_request(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    proxy = await rolled_back(bench, COMPANY)
    served = f'"alias":"{bench.connection.alias(COMPANY)}"'.encode()
    moves = [request.body for request in proxy.to("/_aliases")]
    # A fence each for the writer and the builder, the move, and what is left of the fences.
    assert [move.count(served) for move in moves] == [0, 0, 2, 0]
    assert proxy.to("/_bulk") == []
    assert await company_name(bench) == "old"
