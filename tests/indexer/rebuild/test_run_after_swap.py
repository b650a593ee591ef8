"""What a run deletes after its swap: nothing that another run has begun, or serves, since."""

from indexer.generations.checkpoint import BuildCheckpoint, BuildProgress
from indexer.generations.lifecycle import GenerationLifecycle
from mappings import TEAM
from tests.indexer.client_requests import behind
from tests.indexer.conftest import Bench
from tests.indexer.lock.test_distributed_lock import hold, lock_holder
from tests.indexer.rebuild.test_build_checkpoint import begun_build
from tests.records import envelope


class Successor:
    """A run that takes the lock over and begins a build."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._lifecycle = GenerationLifecycle(bench.engine(), TEAM)
        self.checkpoint = BuildCheckpoint(bench.engine(), self._lifecycle.alias)
        self.progress: BuildProgress | None = None

    async def begin(self) -> None:
        await hold(self._bench, lock_holder(), token=70)
        present = await self._lifecycle.generations()
        await self.checkpoint.read()
        candidate = await self._lifecycle.create(present)
        self.progress = begun_build(candidate, present.live)
        await self.checkpoint.write(self.progress)


async def test_a_run_that_loses_its_lock_after_the_swap_deletes_nothing_of_its_successor(bench: Bench) -> None:
    assert (await bench.build({TEAM: [envelope(TEAM)]})).exit_code == 0
    successor = Successor(bench)

    # The mark is the last that is written before the run deletes what is superfluous.
    with behind(bench.client, "PUT /_doc/mark-", lambda _: successor.begin(), having="teams-v0002"):
        assert (await bench.build({TEAM: [envelope(TEAM, {"name": "new"})]})).exit_code == 0
    assert await bench.live(TEAM) == "teams-v0002"
    assert await bench.indices() == ["teams-v0001", "teams-v0002", "teams-v0003"]
    assert await successor.checkpoint.read() == successor.progress


async def test_a_checkpoint_that_another_run_has_written_is_not_deleted(bench: Bench) -> None:
    assert (await bench.build({TEAM: [envelope(TEAM)]})).exit_code == 0
    successor, checkpoint = Successor(bench), BuildCheckpoint(bench.engine(), bench.connection.alias(TEAM))
    await checkpoint.write(begun_build("a"))
    await successor.begin()
    await checkpoint.clear()
    assert await successor.checkpoint.read() == successor.progress
    await successor.checkpoint.clear()
    assert await successor.checkpoint.read() is None


async def test_an_index_that_went_live_since_it_was_found_superfluous_is_kept(bench: Bench) -> None:
    for name in ("old", "new"):
        assert (await bench.build({TEAM: [envelope(TEAM, {"name": name})]})).exit_code == 0
    lifecycle = GenerationLifecycle(bench.engine(kept_generations=1), TEAM)
    present = await lifecycle.generations()
    (old,) = lifecycle.prunable(present)
    await lifecycle.swap(old, present.live)
    assert await lifecycle.prune(present) == []
    assert await bench.live(TEAM) == "teams-v0001"
    assert len(await bench.served(TEAM)) == 1
