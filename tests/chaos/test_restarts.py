"""A short run of the restarts: every fault happens, and no machine-dependent figure is checked."""

from tests.chaos.loaded_service import load_cluster
from tests.chaos.restarts import killed_workers, rolled


async def test_restarts_lose_no_request_and_kills_only_open_ones(engine_url: str) -> None:
    async with load_cluster([engine_url], 80) as stage:
        roll = await rolled(stage, rolls=1, consumers=8)
        assert (roll.wrong, roll.failed, roll.violations) == (0, 0, [])
        assert int(roll.figures["closed by the service"]) >= 8
        killed = await killed_workers(stage, kills=1, consumers=8)
        assert (killed.wrong, killed.violations) == (0, [])
        assert killed.failed <= 8
