"""Deletions without events: each key is compared again in time, in slices, within limits and across restarts."""

import re
from pathlib import Path
from typing import Any

import pytest

from indexer.reso.sync.key_comparisons import KeyComparisons, KeySlices
from tests.reso.clock import Clock
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import ServerFault, ServerSettings
from tests.reso.sync.open_mirror import open_mirror, put

KEYS = tuple(f"K{number:03}" for number in range(200))
_CYCLE = 6000.0
_ROUND = 30.0


def filled(server: ResoServer, *keys: str) -> None:
    put(server, "Property", *keys)


async def loaded(mirror: Any) -> KeySlices:
    """Load the listings, compare all keys, and return their slices."""
    sync = mirror.walks["Property"]
    await sync.load()
    await sync.compare_keys()
    slices = KeySlices(sync)
    slices.restart(sync.state.compared)
    return slices


async def run_for(slices: KeySlices, clock: Clock, seconds: float, cycle: float = _CYCLE) -> float:
    """Run rounds for some time; return how old the oldest comparison of a key was at most."""
    until, oldest = clock.now + seconds, 0.0
    while clock.now < until:
        await slices.compare_due(cycle)
        oldest = max(oldest, clock.now - (slices.oldest or 0.0))
        clock.now += _ROUND
    return oldest


async def test_a_deletion_is_found_within_a_cycle_and_no_key_stays_unverified_longer(
    tmp_path: Path, clock: Clock
) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, page_size=20) as mirror:
        filled(server, *KEYS)
        slices = await loaded(mirror)
        for number in (0, 57, 199):
            server.delete("Property", KEYS[number])
            oldest = await run_for(slices, clock, _CYCLE + _ROUND)
            assert oldest <= _CYCLE + _CYCLE / 11 + 2 * _ROUND  # the bounds of 11 or 12 slices
            assert mirror.is_equal()
        filled(server, "A", "K0575", "Z")
        await run_for(slices, clock, 2 * _CYCLE)
        assert mirror.is_equal()


async def test_a_cycle_costs_a_request_for_each_slice_evenly(tmp_path: Path, clock: Clock) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, page_size=20) as mirror:
        filled(server, *KEYS)
        slices = await loaded(mirror)
        await run_for(slices, clock, _CYCLE)
        server.ledger.clear()
        in_round: list[int] = []
        for _ in range(int(_CYCLE / _ROUND)):
            before = len(server.ledger.visits)
            await run_for(slices, clock, _ROUND)
            in_round.append(len(server.ledger.visits) - before)
        assert sum(in_round) == 12  # 200 keys, 18 in a slice
        assert max(in_round) == 1
        assert all("City" not in visit.fields for visit in server.ledger.visits)


async def test_a_cycle_continues_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    async with serve_in_loop() as server:
        filled(server, *KEYS)
        async with open_mirror(server, tmp_path, page_size=20) as mirror:
            await run_for(await loaded(mirror), clock, _CYCLE)
            server.ledger.clear()
        for _ in range(10):
            async with open_mirror(server, tmp_path, page_size=20) as mirror:
                slices = KeySlices(mirror.walks["Property"])
                assert await run_for(slices, clock, _CYCLE / 10) <= _CYCLE + 2 * _ROUND
        asked = [visit.describe for visit in server.ledger.visits if visit.resource == "Property"]
        assert len(asked) == len(set(asked)) == 12


async def test_a_slice_that_lacks_too_many_removes_none_and_stays_unverified(tmp_path: Path, clock: Clock) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, page_size=20, removal_limit=0.1) as mirror:
        filled(server, *KEYS)
        slices = await loaded(mirror)
        for key in KEYS[:15] + KEYS[100:115]:
            server.delete("Property", key)
        oldest = await run_for(slices, clock, 4 * _CYCLE)
        assert oldest > 2 * _CYCLE
        assert slices.refused is not None
        assert re.match(r"Property: the source lacks \d+ of \d+ known records after \d+ that were", slices.refused)
        assert len(mirror.held()) >= 180
        filled(server, *KEYS[100:115])
        await run_for(slices, clock, 2 * _CYCLE)
        assert mirror.is_equal()
        assert KeySlices(mirror.walks["Property"]).refused is None


@pytest.mark.parametrize("fault", [ServerFault.EMPTY, ServerFault.STOPS_SHORT, ServerFault.SHORT_PAGE])
async def test_a_bad_answer_removes_nothing(tmp_path: Path, clock: Clock, fault: ServerFault) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, page_size=20) as mirror:
        filled(server, *KEYS)
        slices = await loaded(mirror)
        server.faults.rates = {fault: 0.5}
        await run_for(slices, clock, 2 * _CYCLE)
        assert mirror.is_equal()


async def test_smaller_pages_of_the_source_make_smaller_slices(tmp_path: Path, clock: Clock) -> None:
    settings = ServerSettings(default_page=10, max_page=10)
    async with serve_in_loop(settings) as server, open_mirror(server, tmp_path, page_size=100) as mirror:
        filled(server, *KEYS)
        slices = await loaded(mirror)
        await run_for(slices, clock, _CYCLE)
        server.ledger.clear()
        server.delete("Property", KEYS[30])
        await run_for(slices, clock, _CYCLE + _ROUND)
        assert mirror.is_equal()
        assert len(server.ledger.visits) < 40


async def test_keys_that_the_source_collates_differently_are_verified_too(tmp_path: Path, clock: Clock) -> None:
    mixed = [f"{'k' if number % 2 else 'K'}{number:03}" for number in range(100)]
    async with serve_in_loop() as server, open_mirror(server, tmp_path, page_size=20) as mirror:
        filled(server, *mixed)
        slices = await loaded(mirror)
        server.delete("Property", mixed[40])
        server.delete("Property", mixed[41])
        await run_for(slices, clock, _CYCLE + _ROUND)
        assert mirror.is_equal()


def comparisons(mirror: Any, rate: float) -> KeyComparisons:
    return KeyComparisons(mirror.walks, mirror.access.settings, rate)


async def test_a_rate_that_is_too_low_for_the_setting_is_reported_once(tmp_path: Path) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, page_size=20) as mirror:
        filled(server, *KEYS)
        await mirror.walks["Property"].load()
        assert comparisons(mirror, 2.0).plan(frozenset()) is None
        slow = comparisons(mirror, 18 / (24 * 3600))
        said = slow.plan(frozenset())
        assert said is not None
        assert said.startswith("Within the limits of the source, comparing all keys takes 48.0 hours, more than")
        assert slow.plan(frozenset()) is None
        assert comparisons(mirror, 18 / (24 * 3600)).plan(frozenset(mirror.walks)) is None


async def test_entities_with_events_are_compared_all_at_once_alone(tmp_path: Path, clock: Clock) -> None:
    async with serve_in_loop() as server, open_mirror(server, tmp_path, page_size=20) as mirror:
        filled(server, *KEYS)
        sync = mirror.walks["Property"]
        await sync.load()
        compared = comparisons(mirror, 2.0)
        compared.plan(frozenset())
        await compared.run(sync, by_times=True)
        server.ledger.clear()
        clock.now += 10 * 3600
        await compared.run(sync, by_times=False)
        assert server.ledger.visits == []
        await compared.run(sync, by_times=True)
        assert len(server.ledger.visits) == 12
