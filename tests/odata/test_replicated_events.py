"""`replicate` follows the events of our own API, also where deletions before its position are no longer stored."""

from pathlib import Path

import pytest

from indexer.maintenance.inventory import prune
from indexer.reporting.report import ignore_progress
from indexer.reso.replication import open_replication
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import ReplicationPlan
from mappings import LISTING
from mappings.data_dictionary import load_dictionary
from tests.conftest import open_installation
from tests.feed.feed_client import deleted_listing, listing
from tests.indexer.conftest import Bench, make_bench
from tests.odata.conftest import MarketClient

_FORGOTTEN = "The source no longer has all events since the last round: comparing all keys."


async def _copied(bench: Bench) -> dict[str, object]:
    return {
        name: document["record"]["ListPrice"]
        for name, document in (await bench.served(LISTING)).items()
        if not document["deleted"]
    }


@pytest.mark.parametrize("margin", [0, 200])
async def test_a_source_that_has_purged_its_deletions_is_followed(
    market: MarketClient, engine_url: str, tmp_path: Path, margin: int
) -> None:
    """The market is new and small, so a margin before its last event is before its first."""
    company = {"platform_company_id": "a", "name": "A"}
    plan = ReplicationPlan(str(market.root), "a", load_dictionary(), company)
    settings = ResoSettings(rate=1000.0, folder=str(tmp_path), token=market.keys["a"], event_margin=margin)
    async with open_installation(engine_url) as (client, connection):
        copy = make_bench(client, connection, tmp_path / "copy", 1)
        async with open_replication(copy.engine(), plan, settings, ignore_progress, lambda _: None) as rounds:
            assert (await rounds.run_round()).summary.problems == []
            assert await _copied(copy) == {"L0": 0, "L2": 2, "L4": 4, "D1": 9}
            # A round that comes late: a deletion has come and gone.
            await market.update(deleted_listing("L2", "a", 10))
            await prune(market.bench.engine(tombstone_days=0))
            await market.update(listing("L4", "a", 11, price=40))
            assert (await rounds.run_round()).summary.problems == [_FORGOTTEN]
            assert await _copied(copy) == {"L0": 0, "L4": 40, "D1": 9}
            # The last event is the deletion that was purged: nothing is lost.
            await market.update(deleted_listing("L0", "a", 12))
            assert (await rounds.run_round()).summary.problems == []
            await prune(market.bench.engine(tombstone_days=0))
            assert (await rounds.run_round()).summary.problems == []
            assert await _copied(copy) == {"L4": 40, "D1": 9}
