"""The replications of a test server into an installation, round by round."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indexer.maintenance.status import status
from indexer.reporting.report import ignore_progress
from indexer.reso.replication import Replicator, RoundResult, open_replication
from indexer.reso.replication_status import ReplicationStatus
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import ReplicationPlan
from mappings import LISTING, RESOURCES
from mappings.data_dictionary import DataDictionary
from tests.indexer.conftest import Bench
from tests.reso.expected_index import ACME
from tests.reso.replica_process import COMPANY_RECORD
from tests.reso.server.reso_server import ResoServer
from tests.reso.sync.open_mirror import DICTIONARY


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
        """Open a replication; options are fields of Plan."""
        given: dict[str, Any] = {
            "rate": 10_000.0,
            "page_size": 50,
            "folder": str(self.folder / "replicas"),
            "removal_limit": 1.0,
        }
        made = ReplicationPlan(self.server.url, ACME, dictionary, **{"declared": COMPANY_RECORD, **plan})
        engine = self.bench.engine(dead_letter_limit=self.dead_letter_limit)
        wanted = ResoSettings(**(given | (settings or {})))
        async with open_replication(engine, made, wanted, ignore_progress, lambda _: None) as rounds:
            yield rounds

    async def round(self, *arguments: Any, **options: Any) -> RoundResult:
        """Make one round."""
        async with self.rounds(*arguments, **options) as rounds:
            return await rounds.run_round()

    async def stamps(self) -> dict[str, Any]:
        """Return which change each record is, as consumers who follow see it."""
        found = {}
        for resource in RESOURCES:
            for identifier, document in (await self.bench.served(resource)).items():
                found[f"{resource.alias} {identifier}"] = document["sequence"]
        return found

    async def changed(self, before: dict[str, Any]) -> set[str]:
        """Return the resources of which consumers see changed records."""
        return {name for name, sequence in (await self.stamps()).items() if before.get(name) != sequence}

    async def status(self) -> ReplicationStatus:
        """Return what `index status` says of the only source."""
        (reported,) = {
            each.name: each for state in await status(self.bench.engine()) for each in state.sources
        }.values()
        return reported

    async def live(self) -> list[str]:
        """Return the identifiers of the listings that are served."""
        return sorted(key for key, each in (await self.bench.served(LISTING)).items() if not each["deleted"])

    def delete_mirror(self) -> None:
        """Lose the mirror."""
        shutil.rmtree(self.folder / "replicas")
