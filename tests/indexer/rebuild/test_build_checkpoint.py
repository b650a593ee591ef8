"""The checkpoint of a build: conflicting writers and lost responses."""

from dataclasses import replace

import pytest

from cluster.control_index import CONTROL_BODY, ensure_index
from indexer import LockedError
from indexer.generations.checkpoint import BuildBasis, BuildCheckpoint, BuildProgress
from indexer.reporting.report import SavedLetters
from mappings import TEAM
from tests.indexer.bulk_writes import proxied_client
from tests.indexer.conftest import Bench
from tests.network.bulk_proxy import RequestProxy
from tests.network.http import HANG_UP, Reply, Request
from tests.records import envelope


class LosingProxy(RequestProxy):
    """Loses the response to the first checkpoint; meanwhile the build continues."""

    def __init__(self, target: str, progress: BuildProgress) -> None:
        super().__init__(target)
        self.progress = progress
        self.lost = 0

    async def reply(self, request: Request) -> Reply:
        """Forward a request, and lose the response to the first write."""
        answered = await super().reply(request)
        if request.method == "PUT" and not self.lost:
            self.lost += 1
            self.progress.line += 1
            return HANG_UP
        return answered


def begun_build(candidate: str, live: str | None = None) -> BuildProgress:
    basis = BuildBasis("source", live, "", "shape", "", None)
    return BuildProgress(candidate, basis, taken_at=1, letters=SavedLetters("letters"), follows=-1)


async def begun(bench: Bench) -> BuildProgress:
    """Return the progress of a build that has just begun, under a prefix with a control index."""
    await ensure_index(bench.client, bench.connection.control_index, CONTROL_BODY)
    return begun_build("teams-v0002")


@pytest.mark.usefixtures("quick_retries")
async def test_a_lost_response_is_not_taken_for_another_run(bench: Bench) -> None:
    proxy = LosingProxy(bench.connection.url[0], await begun(bench))
    async with proxied_client(bench, proxy) as client:
        checkpoint = BuildCheckpoint(replace(bench, client=client).engine(), "teams")
        await checkpoint.write(proxy.progress)
        await checkpoint.write(proxy.progress)
    assert proxy.lost == 1
    assert await BuildCheckpoint(bench.engine(), "teams").read() == proxy.progress


async def test_of_two_runs_only_one_goes_on(bench: Bench) -> None:
    progress, one, other = (
        await begun(bench),
        BuildCheckpoint(bench.engine(), "teams"),
        BuildCheckpoint(bench.engine(), "teams"),
    )
    await one.write(progress)
    assert await other.read() == progress
    progress.line = 5
    await other.write(progress)
    progress.line = 6
    with pytest.raises(LockedError, match="Another run has resumed the build of teams"):
        await one.write(progress)


async def test_a_build_of_another_version_of_the_program_is_begun_again_and_that_is_said(bench: Bench) -> None:
    await ensure_index(bench.client, bench.connection.control_index, CONTROL_BODY)
    old = {"progress": {"candidate": bench.connection.alias(TEAM) + "-v0001", "phase": "grafted"}}
    name = f"build-{bench.connection.alias(TEAM)}"
    await bench.client.index(index=bench.connection.control_index, id=name, document=old)
    report = (await bench.build({TEAM: [envelope(TEAM)]})).report_for("teams")
    assert report.warnings == ["an interrupted build of another version of this program is built again"]
    assert await bench.live(TEAM) == "teams-v0001"
    assert await BuildCheckpoint(bench.engine(), bench.connection.alias(TEAM)).read() is None
