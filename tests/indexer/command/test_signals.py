"""SIGINT and SIGTERM end `brokerage index` in order: no lock stays behind, and a sentence says how to go on."""

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from cluster.control_index import read_mark
from mappings import COMPANY, TEAM
from tests.indexer.command.index_process import running
from tests.indexer.conftest import Bench
from tests.network.bulk_proxy import RequestProxy
from tests.network.http import Reply, Request
from tests.processes import catches
from tests.records import envelope, write
from tests.waiting import until, until_true

BUILD_KEPT = "Stopped: the build is kept, and the same command resumes it.\n"
UPDATES_KEPT = "Stopped: applied records stay, and the same command applies the rest.\n"
SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
TEAMS = 2_000
FREE = 20


class HoldingProxy(RequestProxy):
    """Forwards so many bulk requests for teams, and holds the build there: otherwise it may end before the signal."""

    bulks, is_holding = 0, False

    async def reply(self, request: Request) -> Reply:
        """Forward a request, or never answer."""
        self.bulks += request.path.endswith("/_bulk") and "teams" in request.path
        if self.bulks > FREE and request.path.endswith("/_bulk"):
            self.is_holding = True
            await asyncio.Event().wait()
        return await self.forward(request)


def source(bench: Bench) -> Path:
    """Write a source of teams that takes many bulk requests."""
    teams = [envelope(TEAM, {"uuid": f"t{n}"}) for n in range(TEAMS)]
    return write(bench.folder, {COMPANY: [envelope(COMPANY)], TEAM: teams})


async def locks(bench: Bench) -> dict[str, Any]:
    found = await bench.client.mget(
        index=bench.connection.control_index, ids=["lock-run", f"lock-write-{bench.connection.alias(TEAM)}"]
    )
    return {doc["_id"]: doc["_source"]["holder"] for doc in found["docs"] if doc.get("found")}


async def fences(bench: Bench) -> list[str]:
    """Return the aliases through which a run writes what is live."""
    found = await bench.client.indices.get_alias(name=f"{bench.connection.prefix}*-writer-*")
    return [alias for body in found.values() for alias in body["aliases"]]


@SIGNALS
async def test_a_stopped_build_is_kept_and_resumes(bench: Bench, number: int, code: int) -> None:
    folder, small = str(source(bench)), {"BROKERAGE_BULK_DOCUMENTS": "20"}
    proxy, saving = HoldingProxy(bench.connection.url[0]), {"CHECKPOINT_SECONDS": "0"}
    async with (
        proxy.running() as address,
        running(bench, "reindex", folder, ELASTICSEARCH_URL=address, **small, **saving) as stopped,
    ):
        await until(lambda: proxy.is_holding)
        await until_true(partial(read_line, bench))
        stopped.process.send_signal(number)
        assert await stopped.end() == (code, BUILD_KEPT)
    assert await locks(bench) == {"lock-run": None}
    assert await bench.indices() == ["companies-v0001", "teams-v0001"]
    async with running(bench, "reindex", folder, **small) as again:
        assert await again.end() == (0, "")
    report = again.summary()
    assert report["resumed_at"] > 0
    assert (report["read"], report["indexed"], report["documents"]) == (TEAMS, TEAMS, TEAMS)
    assert await bench.indices() == ["companies-v0001", "teams-v0001"]


async def read_line(bench: Bench) -> int:
    """Return how far the checkpoint of the teams says that a build has come."""
    client, alias = bench.client.options(ignore_status=404), bench.connection.alias(TEAM)
    answer = await client.get(index=bench.connection.control_index, id=f"build-{alias}")
    return int(answer["_source"]["progress"]["line"]) if answer.get("found") else 0


@SIGNALS
async def test_updates_from_a_standard_input_that_stays_open_are_stopped(bench: Bench, number: int, code: int) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})
    added = orjson.dumps(envelope(TEAM, {"uuid": "added"})) + b"\n"
    async with running(bench, "update", "-", "--resource", "teams") as stopped:
        assert stopped.process.stdin is not None
        stopped.process.stdin.write(added)
        assert await stopped.until("reading")
        while "added" not in await bench.served(TEAM):
            pass
        stopped.process.send_signal(number)
        assert await stopped.end() == (code, UPDATES_KEPT)
    assert {name: holder for name, holder in (await locks(bench)).items() if holder} == {}
    assert await fences(bench) == []
    document = (await bench.served(TEAM))["added"]
    assert document["sequence"] <= (await bench.mark(TEAM)).sequence


@pytest.mark.parametrize("verb", ["update", "reindex"])
@SIGNALS
async def test_a_command_that_waits_for_its_first_line_is_stopped(
    bench: Bench, verb: str, number: int, code: int
) -> None:
    await bench.build({COMPANY: [envelope(COMPANY)], TEAM: [envelope(TEAM)]})
    async with running(bench, verb, "-") as stopped:
        await until(lambda: catches(stopped.process.pid, signal.SIGTERM))
        await asyncio.sleep(1)  # until it reads
        stopped.process.send_signal(number)
        said = UPDATES_KEPT if verb == "update" else "Stopped.\n"
        assert await stopped.end() == (code, said)
    assert await read_mark(bench.client, bench.connection.control_index, bench.connection.alias(TEAM))
