"""The replications of a test server into an installation: round by round, or as a process that may be killed."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indexer.maintenance.inventory import status
from indexer.reporting.report import ignore_progress
from indexer.reso.replication import Replicator, RoundResult, open_replication
from indexer.reso.replication_status import ReplicationStatus
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import ReplicationPlan
from mappings import LISTING, RESOURCES
from mappings.data_dictionary import DataDictionary
from tests.indexer.command.test_command import environment
from tests.indexer.conftest import Bench
from tests.reso.expected_index import ACME
from tests.reso.server.reso_server import ResoServer
from tests.reso.sync.open_mirror import DICTIONARY

COMPANY_RECORD = {"platform_company_id": ACME, "name": "Acme Realty", "numeric_id": "4711"}
COMPANY_MAP = '[company]\nplatform_company_id = "acme"\nname = "Acme Realty"\nnumeric_id = "4711"\n'
_PATIENCE_SECONDS = 1200
# What is waited for before a question is asked again is a matter of politeness, which a test server does without.
_PROGRAM = """
import indexer.reso.client.odata as responses
responses._INITIAL_DELAY_SECONDS = 0.005
from brokerage.index import index
index()
"""


@dataclass
class ReplicationBench:
    """The replications of a server into one installation."""

    bench: Bench
    server: ResoServer
    folder: Path
    dead_letter_limit: float = 1.0

    @asynccontextmanager
    async def rounds(
        self, dictionary: DataDictionary = DICTIONARY, *, settings: dict[str, Any] | None = None, **plan: Any
    ) -> AsyncIterator[Replicator]:
        """Open a replication; options are fields of ReplicationPlan."""
        usual: dict[str, Any] = {"rate": 10_000.0, "page_size": 50, "removal_limit": 1.0}
        usual |= {"folder": str(self.folder / "replicas")}
        made = ReplicationPlan(self.server.url, ACME, dictionary, **{"declared": COMPANY_RECORD, **plan})
        engine = self.bench.engine(dead_letter_limit=self.dead_letter_limit)
        wanted = ResoSettings(**(usual | (settings or {})))
        async with open_replication(engine, made, wanted, ignore_progress, lambda _: None) as rounds:
            yield rounds

    async def round(self, *arguments: Any, **options: Any) -> RoundResult:
        async with self.rounds(*arguments, **options) as rounds:
            return await rounds.run_round()

    async def stamps(self) -> dict[str, Any]:
        """Return which change each record is, as consumers who follow see it."""
        found = {resource.alias: await self.bench.served(resource) for resource in RESOURCES}
        return {
            f"{alias} {key}": served["sequence"]
            for alias, all_of_it in found.items()
            for key, served in all_of_it.items()
        }

    async def changed(self, before: dict[str, Any]) -> set[str]:
        return {name for name, sequence in (await self.stamps()).items() if before.get(name) != sequence}

    async def status(self) -> ReplicationStatus:
        (reported,) = {
            source.name: source for state in await status(self.bench.engine()) for source in state.sources
        }.values()
        return reported

    async def live(self) -> list[str]:
        return sorted(key for key, served in (await self.bench.served(LISTING)).items() if not served["deleted"])

    def delete_mirror(self) -> None:
        shutil.rmtree(self.folder / "replicas")


@dataclass
class ReplicaProcess:
    """The replication of one server into one installation by the command, with these options and settings."""

    bench: Bench
    server: ResoServer
    folder: Path
    options: tuple[str, ...] = ("--changes", "auto")
    settings: dict[str, str] = field(default_factory=dict)
    map_text: str = COMPANY_MAP
    process: subprocess.Popen[bytes] | None = None
    said: str = ""

    async def run(self, *options: str) -> int:
        """Run one command to its end, however it comes; return its exit code, negative for a signal."""
        (map_file := self.folder / "mls.toml").write_text(self.map_text)
        command = ["replicate", self.server.url, "--company", ACME, "--map", str(map_file), "--json"]
        usual = {
            "BROKERAGE_RESO_RATE": "1000",
            "BROKERAGE_RESO_PAGE_SIZE": "200",
            "BROKERAGE_RESO_DIR": str(self.folder / "replicas"),
            "BROKERAGE_DEAD_LETTER_LIMIT": "1",
            "BROKERAGE_RESO_REMOVAL_LIMIT": "1",
        }
        self.process = subprocess.Popen(  # noqa: ASYNC220, S603 - it is only begun here, and is ours
            [sys.executable, "-c", _PROGRAM, *command, *self.options, *options],
            env=os.environ | environment(self.bench, **(usual | self.settings)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        _, said = await asyncio.to_thread(self.process.communicate, timeout=_PATIENCE_SECONDS)
        self.said = said.decode()
        return self.process.returncode

    def kill(self) -> None:
        """Kill what runs, if anything does."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
