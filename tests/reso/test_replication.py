"""Whatever changes and vanishes while it is read, however often the reader is killed: index and source are equal."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.indexer.conftest import Bench
from tests.reso.expected_index import differences
from tests.reso.replication_bench import ReplicaProcess
from tests.reso.server.request_log import LoggedRequest
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import ServerSettings
from tests.reso.world.generated_world import World, make_world, random_settings
from tests.reso.world.random_changes import RandomChanges

SIGKILLED = -9


def source_of(seed: int) -> ServerSettings:
    """Return the ways of a server, its lies among them; every third has no events, in the others some come late."""
    without = frozenset() if seed % 3 else frozenset({"EntityEvent"})
    return random_settings(seed, with_undetectable=True, without=without, late_share=0.1, slow_seconds=0.01)


def world(seed: int, properties: int) -> World:
    """Return a source with five photos and two open houses a listing."""
    return make_world(seed, properties=properties, media=5 * properties, open_houses=2 * properties)


class ChangesAndKills:
    """Changes a server's data before it responds, and kills the client at some of the requests."""

    def __init__(self, replica: ReplicaProcess, chance: random.Random, *, kills: int, until: int) -> None:
        """Choose the requests of the kills; change until the request of that number."""
        self._replica, self._chance = replica, chance
        self._changes = RandomChanges(replica.server, replica.server.settings.seed)
        self._kills = sorted(chance.randrange(3, until) for _ in range(kills))
        self._asked, self._until = 0, until

    def __call__(self, _visit: LoggedRequest) -> None:
        self._asked += 1
        # A source that changes faster than it is read is never caught up with.
        for _ in range(self._chance.randrange(6) if self._asked < self._until else 0):
            self._changes.step()
        if self._kills and self._asked >= self._kills[0]:
            self._kills.pop(0)
            self._replica.kill()


async def replicated(
    bench: Bench, server: ResoServer, folder: Path, seed: int, kills: int
) -> tuple[ReplicaProcess, int]:
    """Load a server that changes all the while, killed so often; then once more when it is at rest."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    changes = "auto" if "EntityEvent" in server.entities else "timestamps"
    replica, killed = ReplicaProcess(bench, server, folder, ("--changes", changes)), 0
    server.on_request = ChangesAndKills(
        replica, chance, kills=kills, until=max(100, len(server.keys("Property")) // 12)
    )
    while (code := await _run(replica, chance.uniform(0, 15) if 0 < killed < 2 * kills else None)) == SIGKILLED:
        killed += 1
    assert code in (0, 1), replica.said
    server.on_request = None
    # Without events only a comparison of the keys shows what vanished.
    replica.settings["BROKERAGE_RESO_RECONCILE_HOURS"] = "24" if changes == "auto" else "0"
    assert await replica.run() in (0, 1), replica.said
    return replica, killed


async def _run(replica: ReplicaProcess, seconds: float | None) -> int:
    """Make a run, and kill it after so many seconds, while it reads or sends, if it has not ended."""
    killing = None if seconds is None else asyncio.get_running_loop().call_later(seconds, replica.kill)
    code = await replica.run()
    if killing is not None:
        killing.cancel()
    return code


@pytest.mark.seeds(2, 50)
async def test_index_equals_source(bench: Bench, tmp_path: Path, seed: int, amount: Callable[[int, int], int]) -> None:
    """Half of the readers are killed."""
    with serve_in_thread(source_of(seed), world(seed, amount(300, 5_000))) as server:
        _, killed = await replicated(bench, server, tmp_path, seed, kills=3 if seed % 2 else 0)
        assert await differences(bench, server) == {}
        print(f"seed {seed}: {len(server.ledger.visits)} requests, killed {killed} times, equal")
        assert (killed > 0) == bool(seed % 2)
