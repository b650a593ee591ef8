"""Retries while Elasticsearch is away: a process that waits says so, and why."""

import asyncio
import os
import subprocess
import sys

import pytest
from elasticsearch import ConnectionError  # noqa: A004 - the client's name for it

from cluster import client
from cluster.client import retry
from mappings import TEAM
from tests.indexer.command.test_command import environment
from tests.indexer.conftest import Bench
from tests.internals import Internals
from tests.logs import logged
from tests.records import envelope, write

pytestmark = pytest.mark.usefixtures("quick")
NOWHERE = "http://127.0.0.1:9"
# Its first waits, of which it says nothing, take no part of the seconds after which it gives up.
PROGRAM = """
from cluster import client
client._INITIAL_SECONDS = 0.005
from brokerage.index import index
index()
"""


@pytest.fixture
def quick(internals: Internals) -> None:
    """Short waits, and no warning before."""
    internals(cluster_first_pause_seconds=0.001)
    internals(cluster_warnings=type(internals.present("cluster_warnings"))())


class _Outage:
    """An operation that fails a number of times."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    async def __call__(self) -> str:
        self.left -= 1
        if self.left >= 0:
            raise ConnectionError("connection refused")
        return "done"


async def test_many_operations_that_wait_say_once_why(caplog: pytest.LogCaptureFixture) -> None:
    outages = [_Outage(6) for _ in range(5)]
    assert await asyncio.gather(*(retry(outage, 60) for outage in outages)) == ["done"] * 5
    (warning,) = logged(caplog, "indexer")
    assert warning.startswith("Elasticsearch cannot be reached: connection refused. Check ELASTICSEARCH_URL. Trying ")
    assert warning.endswith(" again for up to 60 s.")


async def test_a_short_disturbance_is_not_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert await retry(_Outage(3), 60) == "done"
    assert logged(caplog, "indexer") == []


async def test_no_wait_outlasts_the_time_that_an_operation_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_INITIAL_SECONDS", "_MAX_SECONDS"):
        monkeypatch.setattr(client, name, 1e6)
    async with asyncio.timeout(5):
        with pytest.raises(ConnectionError):
            await retry(_Outage(99), 0.01)


@pytest.mark.parametrize("command", ["update", "verify"])
async def test_a_command_says_that_it_waits(bench: Bench, command: str) -> None:
    """Here for five seconds, by default for five minutes."""
    source = write(bench.folder, {TEAM: [envelope(TEAM)]})
    settings = environment(bench, ELASTICSEARCH_URL=NOWHERE, BROKERAGE_BULK_RETRY_SECONDS="5")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, command, source),
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _, errors = await process.communicate()
    waits, end = errors.decode().splitlines()
    assert (process.returncode, waits.rpartition(" Trying again for up to ")[0]) == (3, end)
    assert end.startswith("Elasticsearch cannot be reached: 127.0.0.1:9 accepts no connection (")
