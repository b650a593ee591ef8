"""A stand-in service, a copy of it, and `brokerage pull` as a process of its own."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from brokerage.command import main
from brokerage_feed.copy_updater import CopyUpdater
from brokerage_feed.feed import Feed
from brokerage_feed.pull_progress import PullStatus
from brokerage_feed.records import RESOURCE_NAMES as RESOURCES
from brokerage_feed.sqlite_copy import SqliteCopy
from tests.consumer.stand_in_service import KEY, StandInService
from tests.internals import Internals
from tests.network.http import http
from tests.network.server import serving

COMMAND = str(Path(sys.executable).with_name("brokerage"))


@dataclass
class ServedStandIn:
    """A stand-in and its address."""

    stand_in: StandInService
    url: str


@pytest.fixture
async def served() -> AsyncIterator[ServedStandIn]:
    stand_in = StandInService()
    for name in RESOURCES:
        for number in range(7):
            stand_in.put(name, f"{name[0]}{number}", number=number)
    async with serving(http(stand_in.reply)) as server:
        yield ServedStandIn(stand_in, server.url)


@pytest.fixture
def waits(internals: Internals) -> list[float]:
    """The seconds that clients would have waited before another attempt; they do not wait here."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await asyncio.sleep(0)

    internals(feed_sleep=sleep)
    return waited


@asynccontextmanager
async def open_pull(
    url: str, folder: Path, *, key: str = KEY, resources: tuple[str, ...] = RESOURCES, **scope: str
) -> AsyncIterator[tuple[CopyUpdater, list[PullStatus]]]:
    """Open a pull into a folder; the statuses that it reports are kept."""
    statuses: list[PullStatus] = []
    with SqliteCopy(folder, resources, str(scope)) as copy:
        async with Feed(url, key, scope) as feed:
            yield CopyUpdater(feed, copy, resources, statuses.append), statuses


def copied(folder: Path) -> dict[str, dict[str, tuple[str, Any]]]:
    """Return what the copy in a folder holds, read as its users read it."""
    with closing(sqlite3.connect(f"file:{folder / 'copy.sqlite3'}?mode=ro", uri=True)) as connection:
        return {
            name: {
                identifier: (content, orjson.loads(record))
                for identifier, content, record in connection.execute(f"SELECT id, content, record FROM {name}")  # noqa: S608
            }
            for name in RESOURCES
        }


def change_copy(folder: Path, statement: str) -> int:
    """Change a copy behind the back of the program; return how many rows."""
    with closing(sqlite3.connect(folder / "copy.sqlite3")) as connection, connection:
        return connection.execute(statement).rowcount


@asynccontextmanager
async def command(*arguments: object, key: str | None = KEY, **changes: str) -> AsyncIterator[Process]:
    """Start `brokerage pull ARGUMENTS`; whatever happens, it is gone afterwards."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BROKERAGE_")}
    given = {} if key is None else {"BROKERAGE_API_KEY": key}
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "pull", *map(str, arguments)),
        env={**kept, "COLUMNS": "200", **given, **changes},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def run(*arguments: object, key: str | None = KEY, **changes: str) -> tuple[int, str, str]:
    """Run `brokerage pull ARGUMENTS` to its end in a thread; return its exit code and what it wrote to both streams."""
    others = {name: None for name in os.environ if name.startswith("BROKERAGE_")}
    given = {**others, "BROKERAGE_API_KEY": key, **changes}
    result = await asyncio.to_thread(CliRunner().invoke, main, ["pull", *map(str, arguments)], env=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr
