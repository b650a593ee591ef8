"""What a load of each provider costs it, compared with the least possible: counts, not times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reso.dialects.provider_replica import ProviderReplica
from tests.reso.dialects.providers import PROVIDERS
from tests.reso.expected_index import differences
from tests.reso.server.running import serve_in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from tests.indexer.conftest import Bench
    from tests.reso.server.reso_server import ResoServer

_PROPERTIES = 1_000


def least_requests(server: ResoServer, page: int) -> int:
    """Return how many full pages hold the records of all sets that replication reads."""
    read = {"Property", "Media", "OpenHouse", "Member", "Office", "Teams", "TeamMembers"}
    return sum(-(-len(server.keys(name)) // page) for name in read if server.is_addressable(name))


@pytest.mark.parametrize("name", sorted(PROVIDERS))
async def test_a_load_costs_little_more_than_its_pages(
    bench: Bench, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    provider = PROVIDERS[name]
    world = provider.world(3, properties=_PROPERTIES, media=5 * _PROPERTIES, open_houses=2 * _PROPERTIES)
    settings = provider.settings()
    with serve_in_thread(settings, world) as server:
        age(server)
        replica = ProviderReplica(name, bench, server, tmp_path)
        assert await replica.run() == 0, replica.said
        visits, dialect = server.ledger.visits, settings.dialect
        assert await differences(bench, server) == {}
        page = max(visit.rows for visit in visits)
        least = least_requests(server, page)
        received = sum(visit.bytes for visit in visits)
        least_bytes = sum(bytes_once(server, name) for name in server.ledger.requests)
        with capsys.disabled():
            print(
                f"\n{dialect.name}: {len(visits)} requests for 1,000 properties, {least} at least in pages of {page}; "
                f"{received / 1e6:.2f} MB, {received / least_bytes:.2f} of the least"
            )
        # Besides the pages of records and of keys: what does not depend on the number of records.
        assert len(visits) <= 2 * least + 60


def age(server: ResoServer) -> None:
    """Let an hour pass, and change one record of each set: what changed last is read again."""
    server.clock.advance(3_600_000)
    for name in ("Property", "Media", "OpenHouse", "Member", "Office", "Teams", "TeamMembers"):
        server.touch(name, server.keys(name)[:1])


def bytes_once(server: ResoServer, name: str) -> float:
    """Return the bytes of the records of a set, each sent once with the fields that were requested."""
    whole = [visit for visit in server.ledger.visits if visit.resource == name and visit.rows and len(visit.fields) > 5]
    rows = sum(visit.rows for visit in whole)
    return sum(visit.bytes for visit in whole) * len(server.keys(name)) / rows if rows else 0.0
