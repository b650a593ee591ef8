"""Commands share a build, and are killed or suspended: the outcome is that of one undisturbed process."""

from __future__ import annotations

import os
import random
import re
import signal
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import orjson
import pytest

from indexer.lock import distributed_lock
from mappings import COMPANY, TEAM
from tests.indexer.changing_sources import first, second, source
from tests.indexer.command.index_process import running
from tests.indexer.command.test_command import run
from tests.indexer.command.test_signals import read_line
from tests.indexer.faults.end_state import contents, second_bench, stamped_since, stored_teams
from tests.indexer.faults.holding_proxy import HoldingProxy
from tests.indexer.faults.process_killer import loaders
from tests.indexer.faults.test_killed_runs import SET, TUNED, check, check_stamps, started
from tests.records import envelope, write
from tests.waiting import until, until_true

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.indexer.command.index_process import Running
    from tests.indexer.conftest import Bench
    from tests.network.http import Reply

LINES = 1_200
# More bytes than those that are compared at each end of a file before its ranges.
ENDS = 70_000
# Of the places of a host that is silent; long enough for a busy machine.
WAIT = {"BROKERAGE_LOCK_WAIT_SECONDS": "60"}
SILENT = {"HOST_TIMEOUT_SECONDS": "1.5"}
# Where another host is to stay: on a busy machine it shows no sign of life for seconds.
LONG_SILENT = {"HOST_TIMEOUT_SECONDS": "10"}


class Expected:
    """What one process makes of the second source, on a bench of its own."""

    def __init__(self, bench: Bench) -> None:
        self.bench = second_bench(bench)
        self.lines = second(LINES)

    async def build(self) -> None:
        """Build it."""
        await started(self.bench, LINES)
        self.before = await self.bench.mark(TEAM)
        source(self.bench, self.lines)
        self.report = vars((await self.bench.build_folder([TEAM], **TUNED)).report_for("teams"))
        self.teams = await stored_teams(self.bench)


class SharedBuild:
    """A bench on which commands share the build of the second source, each behind a proxy."""

    def __init__(self, bench: Bench, expected: Expected, name: str = "shared-") -> None:
        self.bench = second_bench(bench, name)
        self.expected = expected
        self.address = bench.connection.url[0]
        self.first = HoldingProxy(self.address)
        self.second = HoldingProxy(self.address)

    async def start(self) -> None:
        """Build and update the generation that the shared build replaces."""
        await started(self.bench, LINES)
        self.mark, self.live = await self.bench.mark(TEAM), await self.bench.live(TEAM)
        self.known = await stored_teams(self.bench)
        source(self.bench, self.expected.lines)

    @asynccontextmanager
    async def command(self, proxy: HoldingProxy, **changes: str) -> AsyncIterator[Running]:
        """Run the command behind a proxy."""
        arguments = ("reindex", str(self.bench.folder), "teams", "--share")
        given = {**SET, **WAIT, "BROKERAGE_SHARDS": self.bench.settings.shards[0], **changes}
        async with (
            proxy.running() as address,
            running(self.bench, *arguments, ELASTICSEARCH_URL=address, **given) as one,
        ):
            # It coordinates or helps by then; the next one helps.
            await until(lambda: proxy.is_holding)
            yield one

    def release(self) -> None:
        """Hold nothing any more."""
        self.first.released.set()
        self.second.released.set()

    async def check(self, ends: list[tuple[int, str]], *ended: Running) -> None:
        """Check that the commands ended alike, with what one process makes of the source."""
        assert ends == [(1, ends[0][1])] * len(ended)  # there are dead letters
        report = ended[0].summary()
        assert all(each.summary() == report for each in ended)
        live = self.bench.connection.prefix + self.live
        await check(self.bench, report, self.expected.report, self.expected.lines, live)
        found, expected = await stored_teams(self.bench), self.expected
        assert contents(found) == contents(expected.teams)
        check_stamps(found, self.mark, self.known, stamped_since(expected.teams, expected.before))
        assert await shared_documents(self.bench) == ["shared-build"]


def signal_all(processes: list[int], number: signal.Signals) -> None:
    """Send a signal to several processes."""
    for each in processes:
        os.kill(each, number)


def is_refused(reply: Reply) -> bool:
    """Whether every document of a bulk request was refused because the alias does not exist."""
    return all(item["index"]["status"] == 404 for item in orjson.loads(reply.body)["items"])


async def shared_documents(bench: Bench) -> list[str]:
    """Return the documents of shared builds."""
    control = bench.connection.control_index
    await bench.client.indices.refresh(index=control)
    found = await bench.client.search(index=control, size=100)
    return [hit["_id"] for hit in found["hits"]["hits"] if hit["_id"].startswith("shared-")]


@pytest.fixture(scope="module")
def undisturbed() -> dict[int, Expected]:
    """What one process makes of the source, by the number of shards, as far as a test needed it."""
    return {}


@pytest.fixture
async def expected(bench: Bench, shards: int, undisturbed: dict[int, Expected]) -> Expected:
    """What one process makes of the source."""
    if shards not in undisturbed:
        expected = Expected(bench)
        await expected.build()
        undisturbed[shards] = expected
    return undisturbed[shards]


@pytest.fixture
async def shared(bench: Bench, expected: Expected) -> SharedBuild:
    """A shared build that can start."""
    build = SharedBuild(bench, expected)
    await build.start()
    return build


async def test_commands_share_a_build_and_load_the_ranges_of_one_that_is_killed(shared: SharedBuild) -> None:
    gone = HoldingProxy(shared.address)
    async with shared.command(shared.first, **LONG_SILENT) as first, shared.command(shared.second) as helping:
        async with shared.command(gone) as killed:
            killed.process.kill()
            await killed.process.wait()
        shared.release()
        ends = [await each.end() for each in (first, helping)]
    await shared.check(ends, first, helping)
    (loss,) = {*first.summary()["warnings"]} - {*shared.expected.report["warnings"]}
    assert "no sign of life" in loss
    assert "coordinator" not in first.events[-1]
    assert 0 < helping.events[-1]["helped_lines"] < len(shared.expected.lines)


@pytest.mark.parametrize("shards", [3])
async def test_what_a_suspended_host_writes_after_the_swap_is_refused(shared: SharedBuild) -> None:
    async with shared.command(shared.first, **SILENT) as first, shared.command(shared.second) as helping:
        suspended = [*loaders(helping.process.pid), helping.process.pid]
        signal_all(suspended, signal.SIGSTOP)
        shared.first.released.set()
        end = await first.end()
        swapped = await stored_teams(shared.bench)
        shared.second.released.set()
        await until(lambda: len(shared.second.late) == shared.second.bulks)
        signal_all(suspended, signal.SIGCONT)
        late = await helping.end()
    assert all(is_refused(reply) for reply in shared.second.late)
    assert await stored_teams(shared.bench) == swapped
    await shared.check([end, late], first, helping)
    assert (await run(shared.bench, "verify", shared.bench.folder, "teams"))[0] == 0


async def test_a_host_helps_the_run_that_resumes_after_the_coordinator_was_killed(
    bench: Bench, expected: Expected, amount: Callable[[int, int], int]
) -> None:
    for seed in range(amount(1, 10)):
        chance, shared = random.Random(seed), SharedBuild(bench, expected, f"shared{seed}-")  # noqa: S311 - repeatable
        await shared.start()
        shared.first.free, shared.second.free = chance.randint(8, 25), chance.randint(0, 9)
        first = shared.command(shared.first, CHECKPOINT_SECONDS="0")
        async with first as killed, shared.command(shared.second) as helping:
            await until_true(partial(read_line, shared.bench))
            killed.process.kill()
            await killed.process.wait()
            shared.release()
            async with shared.command(shared.first) as again:
                ends = [await each.end() for each in (again, helping)]
        await shared.check(ends, again, helping)
        assert again.summary()["resumed_at"] > 0, f"seed {seed}"


async def test_another_source_cannot_share_a_build(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_lock, "_POLL_SECONDS", 0.1)
    proxy, lines = HoldingProxy(bench.connection.url[0]), first(400)
    content = (source(bench, lines) / "teams.ndjson").read_bytes()
    ends = content[:ENDS], content[-ENDS:]
    contents = {
        r"cannot share the build of process \d+ on .*: teams.ndjson has [\d,]+ bytes here and": content[:-1],
        r"teams.ndjson differs from that of process .* between the lines \d+ and \d+": (
            ends[0] + content[ENDS:-ENDS].replace(b"first", b"tsrif") + ends[1]
        ),
    }
    given = ("reindex", str(bench.folder), "--share")
    async with proxy.running() as address, running(bench, *given, ELASTICSEARCH_URL=address, **SILENT):
        await until(lambda: proxy.is_holding)
        for complaint, other in contents.items():
            folder = write(bench.folder.parent / "other", {COMPANY: [envelope(COMPANY)]})
            (folder / "teams.ndjson").write_bytes(other)
            code, _, err = await run(bench, "reindex", folder, "--share", **WAIT)
            assert (code, bool(re.search(complaint, err))) == (2, True), err
        assert (await run(bench, "reindex", bench.folder))[0] == 4
        proxy.released.set()


async def test_a_single_file_cannot_be_shared(bench: Bench) -> None:
    path = write(bench.folder, {COMPANY: [envelope(COMPANY)]}) / "companies.ndjson"
    code, _, err = await run(bench, "reindex", path, "--share")
    assert (code, "uncompressed .ndjson files in a folder" in err) == (2, True)
