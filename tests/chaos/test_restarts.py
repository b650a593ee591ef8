"""A short form of the restarts: every fault happens, no figure is judged that depends on the machine."""

from __future__ import annotations

from tests.chaos.restarts import killed_workers, rolled
from tests.chaos.stage import staged


async def test_restarts_lose_nothing_and_deaths_only_what_was_under_way(engine_url: str) -> None:
    async with staged([engine_url], 80) as stage:
        roll = await rolled(stage, rolls=1, consumers=8)
        assert (roll.wrong, roll.failed, roll.violations) == (0, 0, [])
        assert int(roll.figures["told to close"]) >= 8
        killed = await killed_workers(stage, kills=1, consumers=8)
        assert (killed.wrong, killed.violations) == (0, [])
        assert killed.failed <= 8
