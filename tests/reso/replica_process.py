"""Replications for tests: as a process that may be killed, or in the test's own loop."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indexer.reporting.report import ignore_progress
from indexer.reso.replication import RoundResult, open_replication
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import ReplicationPlan
from mappings.data_dictionary import load_dictionary
from tests.indexer.command.test_command import environment
from tests.indexer.conftest import Bench
from tests.reso.expected_index import ACME
from tests.reso.server.reso_server import ResoServer

COMPANY_RECORD = {"platform_company_id": ACME, "name": "Acme Realty", "numeric_id": "4711"}
_MAP = '[company]\nplatform_company_id = "acme"\nname = "Acme Realty"\nnumeric_id = "4711"\n'
_PATIENCE_SECONDS = 1200
# What is waited for before a question is asked again is a matter of politeness, which a test server does without.
_PROGRAM = """
import indexer.reso.client.odata as responses
responses._INITIAL_DELAY_SECONDS = 0.005
from brokerage.index import index
index()
"""


@dataclass
class ReplicaProcess:
    """The replication of one server into one bench."""

    bench: Bench
    server: ResoServer
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    changes: str = "auto"
    map_text: str = _MAP
    process: subprocess.Popen[bytes] | None = None
    said: str = ""

    @property
    def _environment(self) -> dict[str, str]:
        given = {
            "BROKERAGE_RESO_RATE": "1000",
            "BROKERAGE_RESO_PAGE_SIZE": "200",
            "BROKERAGE_RESO_DIR": str(self.folder / "replicas"),
            "BROKERAGE_DEAD_LETTER_LIMIT": "1",
            "BROKERAGE_RESO_REMOVAL_LIMIT": "1",
            **self.settings,
        }
        return os.environ | environment(self.bench, **given)

    async def run(self, *options: str) -> int:
        """Run one command to its end, however it comes; return its exit code, negative for a signal."""
        (map_file := self.folder / "mls.toml").write_text(self.map_text)
        command = ["replicate", self.server.url, "--company", ACME, "--map", str(map_file), "--changes", self.changes]
        self.process = subprocess.Popen(  # noqa: ASYNC220, S603 - it is only begun here, and is ours
            [sys.executable, "-c", _PROGRAM, *command, "--json", *options],
            env=self._environment,
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

    async def round(self, **options: Any) -> RoundResult:
        """Make one round in this loop; options are fields of ResoSettings."""
        given = {"rate": 1000.0, "page_size": 200, "folder": str(self.folder / "replicas"), **options}
        plan = ReplicationPlan(self.server.url, ACME, load_dictionary(), COMPANY_RECORD, changes=self.changes)
        engine = self.bench.engine(dead_letter_limit=1.0)
        async with open_replication(engine, plan, ResoSettings(**given), ignore_progress, lambda _: None) as rounds:
            return await rounds.run_round()
