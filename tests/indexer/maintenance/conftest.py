"""Merged teams that updates have fragmented, for the tests of compaction."""

from typing import Any

import pytest

from cluster.index_state import IndexFragmentation
from indexer import Compaction, compact
from indexer.generations.lifecycle import index_fragmentation
from mappings import COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.internals import Internals
from tests.records import envelope

TEAMS, UPDATED = 60, 6


@pytest.fixture
def small_bounds(internals: Internals) -> None:
    """Merge few records, on a busy machine, without the half minute until Elasticsearch gives up what was deleted."""
    internals(compaction_longest_seconds=0.0, compaction_most_load=100)
    internals(fewest_deleted=1)


def team(number: int, name: str, minute: int) -> dict[str, Any]:
    return envelope(TEAM, {"uuid": f"t{number:03}", "name": name}, updated_at=f"2026-01-01T00:{minute:02}:00Z")


@pytest.fixture
async def fragmented(bench: Bench, small_bounds: None) -> Bench:  # noqa: ARG001
    """Merged teams of which a tenth was updated since, in several refreshed batches."""
    await fragment(bench)
    return bench


async def fragment(bench: Bench) -> None:
    """Merge teams, and update a tenth of them in several refreshed batches."""
    old = [team(number, "old", 0) for number in range(TEAMS)]
    assert (await bench.build({COMPANY: [envelope(COMPANY)], TEAM: old}, merge=True)).exit_code == 0
    for number in range(UPDATED):
        await bench.update({TEAM: [team(number * 7, "new", number + 1)]})
    await bench.client.indices.refresh(index=bench.connection.alias(TEAM))
    assert (await fragmentation(bench)).is_fragmented


async def fragmentation(bench: Bench) -> IndexFragmentation:
    return await index_fragmentation(bench.engine(), f"{bench.connection.prefix}{await bench.live(TEAM)}")


async def compact_teams(bench: Bench) -> Compaction:
    (done,) = await compact(bench.engine(), [TEAM])
    return done
