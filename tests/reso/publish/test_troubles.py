"""A replicated listing whose status cannot be mapped stands on the list, is withdrawn, and comes back."""

from pathlib import Path

import pytest

from indexer import SourceError
from indexer.reso.source_map import read_map
from indexer.troubles import Served, troubles
from mappings import LISTING
from tests.indexer.conftest import Bench
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_loop
from tests.reso.sync.open_mirror import small_world


def first_active(server: ResoServer) -> str:
    return next(key for key, record in server.records("Property").items() if record["StandardStatus"] == "Active")


async def test_a_status_that_is_not_mapped_cannot_keep_a_listing_for_sale(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into, key = ReplicationBench(bench, server, tmp_path), first_active(server)
        assert (await into.round()).summary.exit_code == 0
        before = server.records("Property")[key]
        server.patch("Property", key, StandardStatus="Sold STC")
        for _ in range(2):  # in the second round nothing has changed at the source
            assert (await into.round()).summary.exit_code == 1
        (entry,) = await troubles(bench.engine())
        assert (entry.trouble.field, entry.served) == ("StandardStatus", Served.BEFORE)

        bench.settings = bench.engine(trouble_hours=0.0).settings
        assert (await into.round()).summary.exit_code == 1
        served = (await bench.served(LISTING))[entry.trouble.id]["record"]
        assert (served["Status"], served["OnMarket"]) == ("Other", False)

        # The state of before, under the time of before.
        server.put("Property", before, stamped=str(before["ModificationTimestamp"]))
        assert (await into.round()).summary.exit_code == 0
        served = (await bench.served(LISTING))[entry.trouble.id]["record"]
        assert (served["Status"], served["OnMarket"]) == ("Active", True)
        assert await troubles(bench.engine()) == []


async def test_the_policy_of_the_map_of_a_source_overrides_the_setting(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "mls.toml").write_text('trouble_policy = "withhold"\n')
    policy = read_map(tmp_path / "mls.toml").policy
    async with serve_in_loop(world=small_world()) as server:
        into, key = ReplicationBench(bench, server, tmp_path), first_active(server)
        await into.round(policy=policy)
        server.patch("Property", key, StandardStatus="Sold STC")
        bench.settings = bench.engine(trouble_hours=0.0).settings
        await into.round(policy=policy)
        (entry,) = await troubles(bench.engine())
        assert (entry.served, entry.trouble.policy) == (Served.WITHHELD, "withhold")
    (tmp_path / "mls.toml").write_text('trouble_policy = "hide"\n')
    with pytest.raises(
        SourceError, match=r"mls\.toml: trouble_policy: is 'hide': give one of off_market, withhold, keep"
    ):
        read_map(tmp_path / "mls.toml")
