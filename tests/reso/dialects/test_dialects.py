"""In each dialect, whatever changes, vanishes or fails: index and source are equal, record by record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from indexer.reso.client.limits import SourceLimits
from indexer.reso.source_map import read_map
from mappings import LISTING, SOLD_LISTING
from tests.reso.dialects.providers import PROVIDERS, SYSTEM
from tests.reso.expected_index import differences
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import ServerFault
from tests.reso.world.random_changes import RandomChanges

if TYPE_CHECKING:
    from pathlib import Path

    from indexer.reso.replication import RoundResult
    from tests.indexer.conftest import Bench
    from tests.reso.server.reso_server import ResoServer

SIZES = {"properties": 120, "media": 500, "open_houses": 60, "members": 30, "offices": 6, "teams": 3, "team_members": 9}
NAMES = sorted(PROVIDERS)
_FAULTS = (
    *(ServerFault.BROKEN, ServerFault.HTML, ServerFault.CUT, ServerFault.TRUNCATED),
    *(ServerFault.EMPTY, ServerFault.STOPS_SHORT, ServerFault.SHORT_PAGE),
)


@dataclass
class DialectBench:
    """The replications of a provider's server with its profile, without its limits."""

    name: str
    server: ResoServer
    into: ReplicationBench
    map_file: Path | None = None

    async def round(self, **settings: Any) -> RoundResult:
        """Make one round; options are settings."""
        source = read_map(self.map_file, self.name, SYSTEM)
        dialect = msgspec.structs.replace(source.dialect, limits=SourceLimits())
        given = {"allow_http": True, "reconcile_hours": 0.0} | self._credentials() | settings
        return await self.into.round(source.dictionary, settings=given, dialect=dialect)

    def _credentials(self) -> dict[str, str]:
        if self.server.settings.client is None:
            return {"token": self.server.settings.token or ""}
        client, secret = self.server.settings.client
        return {"token_url": self.server.token_url, "client_id": client, "client_secret": secret}


def opened(name: str, bench: Bench, folder: Path, server: ResoServer) -> DialectBench:
    """Return the replications of a provider's server."""
    return DialectBench(name, server, ReplicationBench(bench, server, folder))


@pytest.mark.parametrize("name", NAMES)
async def test_a_load_and_changes_and_deletions_are_equal(bench: Bench, tmp_path: Path, name: str) -> None:
    """Photos, open houses and links to agents among them."""
    provider = PROVIDERS[name]
    with serve_in_thread(provider.settings(), provider.world(3, **SIZES)) as server:
        into = opened(name, bench, tmp_path, server)
        done = await into.round()
        assert (done.summary.problems, await differences(bench, server)) == ([], {})
        records = [
            each["record"] for resource in (LISTING, SOLD_LISTING) for each in (await bench.served(resource)).values()
        ]
        assert min(sum(bool(record.get(field)) for record in records) for field in ("ListingImages", "OpenHouse")) > 5
        assert any(record.get("ListAgentUUID") for record in records)

        changes = RandomChanges(server, 7)
        for _ in range(150):
            changes.step()
        for key in server.keys("Property")[:12]:
            server.delete("Property", key)
        await into.round()
        assert await differences(bench, server) == {}
        server.purge()
        await into.round()
        assert await differences(bench, server) == {}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("short_delays")
async def test_what_changes_while_it_is_read_through_faults_is_equal(bench: Bench, tmp_path: Path, name: str) -> None:
    """Pages that are empty, or end too early without a link to the next, are among the faults."""
    provider = PROVIDERS[name]
    settings = provider.settings(faults=dict.fromkeys(_FAULTS, 0.03), seed=5, retry_after_seconds=0)
    with serve_in_thread(settings, provider.world(5, **SIZES)) as server:
        changes, left = RandomChanges(server, 11), [150]

        def change(_: object) -> None:
            if left[0] > 0:
                left[0] -= 1
                changes.step()

        server.on_request = change
        into = opened(name, bench, tmp_path, server)
        for _ in range(3):
            await into.round(page_size=20)
        server.on_request = None
        await into.round(page_size=20)
        assert await differences(bench, server) == {}


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("trestle", 'load = "links"\nload_option = "replication=true"'),
        ("trestle", 'load = "links"\nchanges = "links"'),
        ("spark", 'load = "links"'),
        ("generic", 'load = "times"'),
        ("generic", 'load = "links"\nchanges = "links"\nsize_by = ["prefer"]'),
    ],
)
async def test_other_walks_read_everything(bench: Bench, tmp_path: Path, name: str, dialect: str) -> None:
    provider = PROVIDERS[name]
    (path := tmp_path / "walk.toml").write_text(f"[dialect]\n{dialect}\n")
    with serve_in_thread(provider.settings(), provider.world(3, **SIZES)) as server:
        into = opened(name, bench, tmp_path, server)
        into.map_file = path
        await into.round(page_size=20)
        assert await differences(bench, server) == {}
        changes = RandomChanges(server, 7)
        for _ in range(60):
            changes.step()
        await into.round(page_size=20)
        assert await differences(bench, server) == {}


async def test_fractions_of_the_source_are_stored_next_to_the_whole_numbers(bench: Bench, tmp_path: Path) -> None:
    """Also those that come as texts."""
    provider = PROVIDERS["generic"]
    with serve_in_thread(provider.settings(), provider.world(3, **SIZES)) as server:
        key = next(key for key, row in server.records("Property").items() if row["StandardStatus"] == "Active")
        server.patch("Property", key, LotSizeAcres="0.23", ListPrice=449_999.5)
        await opened("generic", bench, tmp_path, server).round()
        document = (await bench.served(LISTING))[str(key)]
    assert document["exact"].items() >= {"LotSizeAcres": 0.23, "ListPrice": 449_999.5}.items()
    assert (document["record"]["LotSizeAcres"], document["record"]["ListPrice"]) == (0, 450_000)
