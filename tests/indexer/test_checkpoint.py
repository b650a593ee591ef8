"""The checkpoint of a build: who may write it, and what a lost answer means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cluster.control import CONTROL_BODY, ensure_index
from indexer import LockedError, retry
from indexer.checkpoint import Checkpoint, Progress
from tests.indexer.fault_proxy import FaultProxy, cut_before
from tests.indexer.sending import proxied

if TYPE_CHECKING:
    from aiohttp import web

    from tests.indexer.conftest import Bench


class LosingProxy(FaultProxy):
    """Loses the answer to the first checkpoint; meanwhile the build goes on."""

    def __init__(self, target: str, progress: Progress) -> None:
        """Lose nothing yet."""
        super().__init__(target)
        self.progress = progress
        self.lost = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Forward a request, and lose its answer if it is the first to write."""
        answered = await super().answer(request)
        if request.method == "PUT" and not self.lost:
            self.lost += 1
            self.progress.line += 1
            return await cut_before(self, request, b"")
        return answered


async def begun(bench: Bench) -> Progress:
    """Return the progress of a build that has just begun, in a corner with a control index."""
    await ensure_index(bench.client, bench.connection.control_index, CONTROL_BODY)
    return Progress("teams-v0002", None, "source", "shape", taken_at=1, dead_letters="letters", follows=-1)


async def test_a_lost_answer_is_no_other_run_though_the_build_has_gone_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_FIRST_SECONDS", 0.005)
    proxy = LosingProxy(bench.connection.url[0], await begun(bench))
    async with proxied(bench, proxy) as client:
        checkpoint = Checkpoint(replace(bench, client=client).engine(), "teams")
        await checkpoint.write(proxy.progress)
        await checkpoint.write(proxy.progress)
    assert proxy.lost == 1
    assert await Checkpoint(bench.engine(), "teams").read() == proxy.progress


async def test_of_two_runs_only_one_goes_on(bench: Bench) -> None:
    progress, one, other = await begun(bench), Checkpoint(bench.engine(), "teams"), Checkpoint(bench.engine(), "teams")
    await one.write(progress)
    assert await other.read() == progress
    progress.line = 5
    await other.write(progress)
    progress.line = 6
    with pytest.raises(LockedError, match="Another run goes on with the build of teams"):
        await one.write(progress)
