"""In each dialect, whatever changes, vanishes or fails: index and source are equal, record by record."""

from pathlib import Path

import msgspec
import pytest

from indexer.reso.client.limits import SourceLimits
from indexer.reso.source_map import read_map
from mappings import LISTING, SOLD_LISTING
from tests.indexer.conftest import Bench
from tests.reso.dialects.providers import PROVIDERS, SYSTEM
from tests.reso.expected_index import differences
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import INCOMPLETE_PAGES, ServerFault
from tests.reso.world.random_changes import RandomChanges

_SIZES = {
    "properties": 120,
    "media": 500,
    "open_houses": 60,
    "members": 30,
    "offices": 6,
    "teams": 3,
    "team_members": 9,
}
_BROKEN = (ServerFault.BROKEN, ServerFault.HTML, ServerFault.CUT, ServerFault.TRUNCATED)
# The walks of the profiles, and those that a map may choose instead.
_WALKS = [
    *((name, "") for name in PROVIDERS),
    ("trestle", 'load = "links"\nload_option = "replication=true"'),
    ("trestle", 'load = "links"\nchanges = "links"'),
    ("spark", 'load = "links"'),
    ("generic", 'load = "times"'),
    ("generic", 'load = "links"\nchanges = "links"\nsize_by = ["prefer"]'),
]


@pytest.mark.parametrize(("name", "dialect"), _WALKS)
@pytest.mark.usefixtures("short_delays")
async def test_what_changes_while_it_is_read_through_faults_is_equal(
    bench: Bench, tmp_path: Path, name: str, dialect: str
) -> None:
    """Photos, open houses and links to agents among it; pages that end too early among the faults."""
    (path := tmp_path / "walk.toml").write_text(f"[dialect]\n{dialect}\n[dialect.limits]\n")
    provider, source = PROVIDERS[name], read_map(path, name, SYSTEM)
    plan = {"dialect": msgspec.structs.replace(source.dialect, limits=SourceLimits())}
    faults = dict.fromkeys((*_BROKEN, *INCOMPLETE_PAGES), 0.03)
    settings = provider.settings(faults=faults, seed=5, retry_after_seconds=0)
    with serve_in_thread(settings, provider.world(3, **_SIZES)) as server:
        into, given = ReplicationBench(bench, server, tmp_path), provider.client_settings(server) | {"page_size": 20}
        changes, left = RandomChanges(server, 11), iter(range(150))
        server.on_request = lambda _: None if next(left, None) is None else changes.step()
        for _ in range(2):
            await into.round(source.dictionary, settings=given, **plan)
        server.on_request = None
        server.faults.clear()
        for key in server.keys("Property")[:12]:
            server.delete("Property", key)
        done = await into.round(source.dictionary, settings=given, **plan)
        assert (done.summary.problems, await differences(bench, server)) == ([], {})
        found = [*(await bench.served(LISTING)).values(), *(await bench.served(SOLD_LISTING)).values()]
        for member in ("ListingImages", "OpenHouse", "ListAgentUUID"):
            assert sum(bool(served.get("record", {}).get(member)) for served in found) > 5
        server.purge()
        await into.round(source.dictionary, settings=given, **plan)
        assert await differences(bench, server) == {}


async def test_fractions_of_the_source_are_stored_next_to_the_whole_numbers(bench: Bench, tmp_path: Path) -> None:
    """Also those that come as texts."""
    provider = PROVIDERS["generic"]
    with serve_in_thread(provider.settings(), provider.world(3, **_SIZES)) as server:
        key = next(key for key, row in server.records("Property").items() if row["StandardStatus"] == "Active")
        server.patch("Property", key, LotSizeAcres="0.23", ListPrice=449_999.5)
        await ReplicationBench(bench, server, tmp_path).round(settings=provider.client_settings(server))
        document = (await bench.served(LISTING))[str(key)]
    assert document["exact"].items() >= {"LotSizeAcres": 0.23, "ListPrice": 449_999.5}.items()
    assert (document["record"]["LotSizeAcres"], document["record"]["ListPrice"]) == (0, 450_000)
