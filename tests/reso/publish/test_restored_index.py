"""An index that went back in time receives what the source has, without the operator."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexer import begin_new_epochs
from tests.feed.snapshot_repository import SnapshotRepository, snapshot_repository
from tests.indexer.conftest import Bench
from tests.reso.expected_index import differences
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.running import serve_in_loop
from tests.reso.sync.open_mirror import small_world


@pytest.fixture(scope="module")
def engine_url(embedded_url: str) -> str:
    return embedded_url


@pytest.fixture
async def snapshots(bench: Bench) -> AsyncIterator[SnapshotRepository]:
    async with snapshot_repository(bench.client, bench.connection.prefix) as repository:
        yield repository


@pytest.mark.parametrize("is_declared", [True, False])
async def test_a_restored_index_receives_again_what_the_restore_undid(
    bench: Bench, snapshots: SnapshotRepository, tmp_path: Path, *, is_declared: bool
) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        async with into.rounds() as rounds:
            await rounds.run_round()
            await snapshots.take("first")
            changed, deleted, *_ = server.keys("Property")
            server.patch("Property", changed, PublicRemarks="After the backup")
            server.delete("Property", deleted)
            await rounds.run_round()
            assert await differences(bench, server) == {}
            await snapshots.restore("first")
            if is_declared:
                await begin_new_epochs(bench.engine())
            assert await differences(bench, server) != {}
            assert "restored or rolled back" in " ".join((await rounds.run_round()).lines)
            assert await differences(bench, server) == {}
            quiet = await rounds.run_round()
            assert (quiet.lines, quiet.summary.resources) == ([], [])
        # A new process knows the present epoch, too.
        assert "restored" not in " ".join((await into.round()).lines)


async def test_a_restore_right_after_the_load_is_noticed(
    bench: Bench, snapshots: SnapshotRepository, tmp_path: Path
) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        await into.round()
        await snapshots.take("first")
        await snapshots.restore("first")
        assert "restored or rolled back" in " ".join((await into.round()).lines)
