"""An update of several resources that waits for one of them holds none of the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from indexer import open_source, update
from indexer.lock.distributed_lock import acquire_lock
from mappings import COMPANY, OFFICE, TEAM
from tests.records import envelope, write

if TYPE_CHECKING:
    from indexer import ResourceReport
    from tests.indexer.conftest import Bench


async def test_an_update_that_waits_for_a_lock_releases_the_others(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], OFFICE: [envelope(OFFICE)], TEAM: [envelope(TEAM)]})
    later = "2026-03-01T00:00:00Z"
    lines = {resource: [envelope(resource, {"name": "new"}, updated_at=later)] for resource in (OFFICE, TEAM)}
    folder = write(bench.folder.parent / "changes", lines)
    control, waiting = bench.connection.control_index, asyncio.Event()

    def watch(report: ResourceReport) -> None:
        if report.resource == "teams" and report.note:
            waiting.set()

    with open_source(str(folder)) as source:
        async with acquire_lock(bench.client, control, f"write-{bench.connection.alias(TEAM)}"):
            run = asyncio.create_task(update(bench.engine(), source, on_progress=watch))
            await waiting.wait()
            # The swap of a rebuild, which holds the lock of the teams, waits for that of the offices.
            async with acquire_lock(bench.client, control, f"write-{bench.connection.alias(OFFICE)}", wait_seconds=0):
                assert not run.done()
                assert (await bench.served(OFFICE))["office-1"]["record"]["name"] == "new"
        summary = await run
    assert summary.exit_code == 0
    assert (await bench.served(TEAM))["team-1"]["record"]["name"] == "new"
