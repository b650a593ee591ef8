"""An update of several resources that waits for one of them holds none of the others."""

import asyncio

from indexer import ResourceReport, open_source, update
from indexer.changes.stamps import newest_by_id
from indexer.lock import acquire_lock
from mappings import COMPANY, OFFICE, TEAM
from tests.indexer.client_requests import before, lose
from tests.indexer.conftest import Bench
from tests.indexer.parsed_lines import parse_line
from tests.records import envelope, write


async def test_a_writer_with_nothing_to_publish_gives_its_lock_to_a_run_that_waits(bench: Bench) -> None:
    """Lines of other resources may keep an update busy for hours, or lines that change nothing."""
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})
    control, name = bench.connection.control_index, f"write-{bench.connection.alias(TEAM)}"
    writer = bench.writer()
    assert (await writer.apply(newest_by_id([parse_line(TEAM, envelope(TEAM))]))).unchanged == 1

    async def take() -> None:
        async with acquire_lock(bench.client, control, name, wait_seconds=60):
            pass

    taking = asyncio.create_task(take())
    while not taking.done():
        assert not await writer.publish()
        await asyncio.sleep(0.05)
    await taking
    await writer.release()


async def test_a_request_for_a_lock_that_cannot_be_read_ends_no_update(bench: Bench) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})
    writer = bench.writer()
    later = envelope(TEAM, {"name": "new"}, updated_at="2026-03-01T00:00:00Z")
    await writer.apply(newest_by_id([parse_line(TEAM, later)]))

    with before(bench.client, "GET /_doc/wanted-", *[lose] * 9):
        assert await writer.publish()
        assert not await writer.publish()
    await writer.release()


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
