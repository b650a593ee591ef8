"""Each provider: a load with changes, faults and kills, then changes and deletions; index and source are equal."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.reso.dialects.provider_replica import ProviderReplica
from tests.reso.dialects.providers import BRIDGE, PROVIDERS
from tests.reso.expected_index import differences
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import ServerFault
from tests.reso.test_replication import SIGKILLED, ChangesAndKills
from tests.reso.world.random_changes import RandomChanges

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.indexer.conftest import Bench

_FAULTS = (
    ServerFault.TOO_MANY,
    ServerFault.UNAVAILABLE,
    ServerFault.BROKEN,
    ServerFault.HTML,
    ServerFault.CUT,
    ServerFault.TRUNCATED,
)
_FEW = {"properties": 30, "media": 90, "open_houses": 20, "members": 8, "offices": 3}
_KILLS, _CHANGES, _DELETIONS = 2, 500, 50


@pytest.mark.parametrize("name", sorted(PROVIDERS))
async def test_index_equals_source(bench: Bench, tmp_path: Path, name: str, amount: Callable[[int, int], int]) -> None:
    provider, size = PROVIDERS[name], amount(300, 3_000)
    ends_tokens_early: dict[str, Any] = {"token_requests": 20} if provider.settings().client else {}
    settings = provider.settings(faults=dict.fromkeys(_FAULTS, 0.02), retry_after_seconds=0, **ends_tokens_early)
    world = provider.world(7, properties=size, media=5 * size, open_houses=size, members=60, offices=12)
    with serve_in_thread(settings, world) as server:
        replica, killed = ProviderReplica(name, bench, server, tmp_path), 0
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


async def test_the_limits_that_a_profile_documents_are_kept_also_by_a_run_that_is_killed(
    bench: Bench, tmp_path: Path
) -> None:
    """The settings allow 1,000 requests per second, the provider two."""
    provider = PROVIDERS["mlsgrid"]
    with serve_in_thread(provider.settings(is_limited=True), provider.world(5, **_FEW)) as server:
        replica = ProviderReplica("mlsgrid", bench, server, tmp_path, is_limited=True)
        replica.settings["BROKERAGE_RESO_RATE"] = "1000"
        server.on_request = lambda visit: replica.kill() if visit.number == 7 else None
        assert await replica.run() == SIGKILLED
        assert await replica.run() == 0, replica.said
        assert (server.violations, await differences(bench, server)) == (0, {})


@pytest.mark.parametrize("is_counted", [True, False])
@pytest.mark.parametrize("links", [("Link",), ("next",), ("body", "Link", "next")], ids="+".join)
async def test_next_links_of_replication_are_in_headers(
    bench: Bench, tmp_path: Path, links: tuple[Any, ...], *, is_counted: bool
) -> None:
    """Public clients of Bridge read them there; what comes in the body alone is played above."""
    provider = PROVIDERS["bridge"]
    dialect = replace(BRIDGE, replication_links=links, counts_replication=is_counted, limits=())
    with serve_in_thread(provider.settings(dialect=dialect), provider.world(5, **_FEW)) as server:
        replica = ProviderReplica("bridge", bench, server, tmp_path)
        replica.settings["BROKERAGE_RESO_PAGE_SIZE"] = "7"
        assert await replica.run() == 0, replica.said
        assert await differences(bench, server) == {}
