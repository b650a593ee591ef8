"""`brokerage index` as a process of its own, to be killed or stopped while it works."""

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from tests.indexer.command.test_command import environment
from tests.indexer.conftest import Bench

# Shortens the intervals of checkpoints, publications and retries for runs of a second. Merges do not wait until
# Elasticsearch gives up what was just deleted, nor for a quiet machine; an index of several segments is fragmented.
_PROGRAM = """
import os
import sys
from cluster import index_state
from indexer.load import loader
from cluster import client
from indexer.maintenance import compaction
loader._CHECKPOINT_SECONDS = float(os.environ.get("CHECKPOINT_SECONDS", "0.05"))
# The package has a function of the same name.
sys.modules["indexer.update"]._PUBLISH_INTERVAL_SECONDS = 0.05
client._INITIAL_SECONDS = 0.005
compaction._LONGEST_SECONDS = 0.0
compaction.MAX_LOAD = 100
index_state.MAX_SEGMENTS = 1
from brokerage.index import index
index()
"""
# A command that hangs fails its test.
_PATIENCE_SECONDS = 300


class Running:
    """One command; its JSON lines as they come."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []

    async def until(self, stage: str, resource: str = "teams") -> bool:
        """Read up to a stage of the work on a resource; False where the command ends before it."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.events.append(orjson.loads(line))
            event = self.events[-1]
            if event["event"] == "progress" and (event["resource"], event["stage"]) == (resource, stage):
                return True
        return False

    async def end(self) -> tuple[int, str]:
        """Wait for the end; return exit code and standard error, and keep the rest of the output.

        Standard input stays open.
        """
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        async with asyncio.timeout(_PATIENCE_SECONDS):
            out, err = await asyncio.gather(self.process.stdout.read(), self.process.stderr.read())
            code = await self.process.wait()
        self.events += [orjson.loads(line) for line in out.splitlines()]
        return code, err.decode()

    def summary(self, resource: str = "teams") -> dict[str, Any]:
        """Return a resource's report at the end."""
        found: dict[str, Any] = self.events[-1]["resources"][resource]
        return found


@asynccontextmanager
async def running(bench: Bench, *arguments: str, **changes: str) -> AsyncIterator[Running]:
    """Start `brokerage index ARGUMENTS --json` on the bench's installation; it is ended afterwards in any case."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PROGRAM, *arguments, "--json"),
        env=os.environ | environment(bench, **changes),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
