"""`brokerage pull --follow` as a process that is killed again and again, and what came of it."""

import asyncio
import signal
import sqlite3
from asyncio.subprocess import Process
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import orjson

from mappings import Resource
from tests.consumer.conftest import COMMAND
from tests.consumer.service_process import ON_MARKET, Held, environment
from tests.waiting import until


@dataclass
class PullResults:
    """What came of the processes, by what they have written."""

    verifications: int = 0
    proofs: set[str] = field(default_factory=set)
    snapshots: int = 0
    changes: int = 0
    different: list[str] = field(default_factory=list)


@dataclass
class PullProcess:
    """`brokerage pull --follow` as a process, killed and started again; each writes files of its own."""

    folder: Path
    url: str
    key: str
    verify_seconds: float
    kills: int = 0
    _process: Process | None = None
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def kill(self, pause: float) -> None:
        """Kill it, every other time when it has just stored a token; start it again after so many seconds."""
        async with self._busy:
            if self.kills % 2 == 0:
                await self._moves()
            await self.end()
            self.kills += 1
            await asyncio.sleep(pause)
            await self.start()

    async def start(self) -> None:
        self._process = await self._started("--follow")

    async def end(self) -> None:
        """Kill it; it must have gone on until then."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        assert await self._process.wait() == -signal.SIGKILL, self._log("err").read_text()
        assert self._log("err").read_text() == ""

    async def until_complete(self) -> None:
        """Return once the copy holds a token, which a rollback makes invalid."""
        await until(self._token)

    async def _moves(self) -> None:
        """Return as soon as the copy has stored another token: what it covers must be stored as well."""
        before = None
        async with asyncio.timeout(60):
            while (token := self._token()) is None or before in {None, token}:
                before = token
                await asyncio.sleep(0.001)

    def _token(self) -> str | None:
        """Return the token from which the listings continue, None before the first snapshot is complete."""
        where = f"file:{self.folder / 'copy.sqlite3'}?mode=ro"
        try:
            with closing(sqlite3.connect(where, uri=True)) as connection:
                found = connection.execute("SELECT token FROM state WHERE resource = 'listings'").fetchone()
                return str(found[0]) if found and found[0] else None
        except sqlite3.OperationalError:  # it is not there yet, or being made
            return None

    async def stop(self) -> None:
        """Let nothing go on, whatever has happened."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def once(self) -> int:
        """Pull once and return the exit code."""
        return await (await self._started("--once")).wait()

    async def _started(self, how: str) -> Process:
        with self._log("out").open("ab") as out, self._log("err").open("wb") as err:
            return await asyncio.create_subprocess_exec(
                *(COMMAND, "pull", str(self.folder), "--url", self.url, "--json", how),
                *("--market-status", ON_MARKET["market_status"], "--resources", "companies,offices,listings"),
                env=environment(BROKERAGE_API_KEY=self.key, BROKERAGE_PULL_VERIFY_SECONDS=str(self.verify_seconds)),
                stdout=out,
                stderr=err,
            )

    def _log(self, name: str) -> Path:
        return self.folder.with_name(f"pull-{self.kills}.{name}")

    def ended(self) -> PullResults:
        ended = PullResults()
        for path in self.folder.parent.glob("pull-*.out"):
            statuses = [orjson.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
            for name in {each["resource"] for each in statuses if each["event"] == "progress"}:
                one = [each for each in statuses if each.get("resource") == name]
                ended.snapshots += max(each["snapshots"] for each in one)
                ended.changes += max(each["changed"] + each["removed"] for each in one)
                stages = pairwise(each["stage"] for each in one)
                ended.verifications += sum(now == "verifying" != last for last, now in stages)
                ended.proofs |= {each["proof"] for each in one} - {"not verified"}
                ended.different += [f"{name} {each}" for line in one for each in line["different"]]
        return ended


def copied(folder: Path, resource: Resource) -> Held:
    with closing(sqlite3.connect(f"file:{folder / 'copy.sqlite3'}?mode=ro", uri=True)) as connection:
        rows = connection.execute(f"SELECT id, company, sequence, content, record FROM {resource.alias}")  # noqa: S608
        return {name: (company, at, content, record.encode()) for name, company, at, content, record in rows}
