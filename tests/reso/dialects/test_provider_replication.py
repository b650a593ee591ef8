"""Each provider by the command: killed while all changes and fails, what a load costs, and the limits that are kept."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mappings import LISTING
from tests.indexer.conftest import Bench
from tests.reso.dialects.providers import BRIDGE, PROVIDERS, SPARK, provider_replica
from tests.reso.expected_index import differences
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import ServerFault
from tests.reso.test_replication import SIGKILLED, ChangesAndKills
from tests.reso.world.random_changes import RandomChanges

_FAULTS = (
    *(ServerFault.TOO_MANY, ServerFault.UNAVAILABLE, ServerFault.BROKEN),
    *(ServerFault.HTML, ServerFault.CUT, ServerFault.TRUNCATED),
)
_SETS = ("Property", "Media", "OpenHouse", "Member", "Office", "Teams", "TeamMembers")
_FEW = {"properties": 30, "media": 90, "open_houses": 20, "members": 8, "offices": 3}
_KILLS, _CHANGES, _DELETIONS = 2, 500, 50


@pytest.mark.parametrize("name", PROVIDERS)
async def test_index_equals_source(bench: Bench, tmp_path: Path, name: str, amount: Callable[[int, int], int]) -> None:
    provider, size = PROVIDERS[name], amount(120, 3_000)
    ends_tokens_early: dict[str, Any] = {"token_requests": 20} if provider.settings().client else {}
    settings = provider.settings(faults=dict.fromkeys(_FAULTS, 0.02), retry_after_seconds=0, **ends_tokens_early)
    world = provider.world(7, properties=size, media=5 * size, open_houses=size, members=60, offices=12)
    with serve_in_thread(settings, world) as server:
        replica, killed = provider_replica(name, bench, server, tmp_path), 0
        chance = random.Random(7)  # noqa: S311 - repeatable
        server.on_request = ChangesAndKills(replica, chance, kills=_KILLS, until=20)
        while (code := await replica.run()) == SIGKILLED:
            killed += 1
        server.on_request = None
        assert (code, killed) == (0, _KILLS), replica.said
        changes = RandomChanges(server, 7)
        for _ in range(_CHANGES):
            changes.step()
        for key in chance.sample(server.keys("Property"), _DELETIONS):
            server.delete("Property", key)
        replica.settings["BROKERAGE_RESO_RECONCILE_HOURS"] = "0"
        assert await replica.run() == 0, replica.said
        assert await differences(bench, server) == {}


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_load_costs_little_more_than_its_pages(
    bench: Bench, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts, not times: compared with pages of the same size and fields and nothing else."""
    provider = PROVIDERS[name]
    settings, world = provider.settings(), provider.world(3, properties=1_000, media=5_000, open_houses=2_000)
    with serve_in_thread(settings, world) as server:
        # After an hour one record of each set changes: what changed last is read again.
        server.clock.advance(3_600_000)
        for resource in _SETS:
            server.touch(resource, server.keys(resource)[:1])
        replica = provider_replica(name, bench, server, tmp_path)
        assert await replica.run() == 0, replica.said
        visits = server.ledger.visits
        assert await differences(bench, server) == {}
        page = max(visit.rows for visit in visits)
        least = sum(-(-len(server.keys(resource)) // page) for resource in _SETS if server.is_addressable(resource))
        received = sum(visit.bytes for visit in visits)
        least_bytes = sum(_bytes_once(server, resource) for resource in server.ledger.requests)
        with capsys.disabled():
            print(
                f"\n{settings.dialect.name}: {len(visits)} requests for 1,000 properties, {least} at least in pages of "
                f"{page}; {received / 1e6:.2f} MB, {received / least_bytes:.2f} of the least"
            )
        # Besides the pages of records and of keys: what does not depend on the number of records.
        assert len(visits) <= 2 * least + 60
        assert received / least_bytes < 1.2


def _bytes_once(server: ResoServer, name: str) -> float:
    """Return the bytes of the records of a set, each sent once with the fields that were requested."""
    whole = [visit for visit in server.ledger.visits if visit.resource == name and visit.rows and len(visit.fields) > 5]
    rows = sum(visit.rows for visit in whole)
    return sum(visit.bytes for visit in whole) * len(server.keys(name)) / rows if rows else 0.0


async def test_the_limits_that_a_profile_documents_are_kept_also_by_a_run_that_is_killed(
    bench: Bench, tmp_path: Path
) -> None:
    """The settings allow 1,000 requests per second, the provider two."""
    provider = PROVIDERS["mlsgrid"]
    with serve_in_thread(provider.settings(is_limited=True), provider.world(5, **_FEW)) as server:
        replica = provider_replica("mlsgrid", bench, server, tmp_path, is_limited=True)
        server.on_request = lambda visit: replica.kill() if visit.number == 7 else None
        assert await replica.run() == SIGKILLED
        assert await replica.run() == 0, replica.said
        assert (server.violations, await differences(bench, server)) == (0, {})


async def test_open_houses_come_under_their_present_name_too(bench: Bench, tmp_path: Path) -> None:
    """The Data Dictionary has renamed the member of Property, so sources have the one or the other."""
    provider = PROVIDERS["spark"]
    dialect = replace(SPARK, member_names={"OpenHouse": "OpenHouses"}, limits=())
    with serve_in_thread(provider.settings(dialect=dialect), provider.world(5, **_FEW)) as server:
        replica = provider_replica("spark", bench, server, tmp_path)
        assert await replica.run() == 0, replica.said
        listings = [row["record"] for row in (await bench.served(LISTING)).values() if not row["deleted"]]
        assert any(record["OpenHouse"] for record in listings)
        assert await differences(bench, server) == {}


@pytest.mark.parametrize("is_counted", [True, False])
@pytest.mark.parametrize("links", [("Link",), ("next",), ("body", "Link", "next")], ids="+".join)
async def test_next_links_of_replication_are_in_headers(
    bench: Bench, tmp_path: Path, links: tuple[Any, ...], *, is_counted: bool
) -> None:
    """Public clients of Bridge read them there; what comes in the body alone is played above."""
    provider = PROVIDERS["bridge"]
    dialect = replace(BRIDGE, replication_links=links, counts_replication=is_counted, limits=())
    with serve_in_thread(provider.settings(dialect=dialect), provider.world(5, **_FEW)) as server:
        replica = provider_replica("bridge", bench, server, tmp_path)
        replica.settings["BROKERAGE_RESO_PAGE_SIZE"] = "7"
        assert await replica.run() == 0, replica.said
        assert await differences(bench, server) == {}
