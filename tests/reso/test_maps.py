"""What operators say of a source: maps, the company, time zones, and what cannot be meant."""

from pathlib import Path
from typing import Any

import pytest

from indexer.errors import SourceError
from indexer.reso.source_map import ReplicationPlan
from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING
from mappings.data_dictionary import load_dictionary
from tests.indexer.conftest import Bench
from tests.reso.expected_index import ACME, differences
from tests.reso.replication_bench import COMPANY_RECORD, ReplicationBench
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import ServerSettings
from tests.reso.sync.open_mirror import DICTIONARY, ON_SALE, put, small_world


async def test_a_company_whose_declaration_changed_is_sent_alone(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        await into.round()
        before = await into.stamps()
        await into.round(declared={**COMPANY_RECORD, "name": "Acme & Daughters"})
        assert await into.changed(before) == {f"companies {ACME}"}
        assert (await bench.served(COMPANY))[ACME]["record"]["name"] == "Acme & Daughters"


async def test_another_map_reads_and_sends_everything_again(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        await into.round()
        server.ledger.clear()
        await into.round(load_dictionary(b'[Property.status]\n"Active" = "ComingSoon"\n"Closed" = "ComingSoon"'))
        assert not [visit for visit in server.ledger.visits if visit.resource == "Property"]
        statuses = {
            entity["record"]["Status"] for entity in (await bench.served(LISTING)).values() if not entity["deleted"]
        }
        assert "ComingSoon" in statuses
        assert "Active" not in statuses
        assert all(row["deleted"] for row in (await bench.served(SOLD_LISTING)).values())
        await into.round(load_dictionary(b'[Property.fields]\nPublicRemarks = "OriginatingSystemName"'))
        assert [visit for visit in server.ledger.visits if "OriginatingSystemName" in visit.describe]
        await into.round()
        assert await differences(bench, server) == {}


async def test_another_time_zone_sends_open_houses_again(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop() as server:
        put(server, "Property", "K", **ON_SALE)
        moments = {"OpenHouseDate": "2026-07-04", "OpenHouseStartTime": "2026-07-04T17:00:00Z"}
        put(server, "OpenHouse", "O", ListingKey="K", OpenHouseStatus="Active", OpenHouseType="Public", **moments)
        for zone, start in ((None, None), ("America/Chicago", "12:00:00"), ("America/Denver", "11:00:00")):
            await ReplicationBench(bench, server, tmp_path).round(time_zone=zone)
            [house] = (await bench.served(LISTING))["K"]["record"]["OpenHouse"]
            assert house.get("StartTime") == start


@pytest.mark.parametrize("declared", [{}, {"platform_company_id": "other"}])
def test_a_declared_company_that_is_another_is_refused(declared: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="must have platform_company_id = 'acme'"):
        ReplicationPlan("https://x", ACME, DICTIONARY, declared)


async def test_what_cannot_be_replicated_is_reported_before_anything_is_read(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(
        ServerSettings(without=frozenset({"EntityEvent", "Teams.ModificationTimestamp"}))
    ) as server:
        into = ReplicationBench(bench, server, tmp_path)
        with pytest.raises(SourceError, match="Teams of the source has no ModificationTimestamp"):
            await into.round()
    async with serve_in_loop(ServerSettings(without=frozenset({"EntityEvent"}))) as server:
        into = ReplicationBench(bench, server, tmp_path)
        with pytest.raises(SourceError, match=r"acme is not a company in the index\. Load it with"):
            await into.round(declared=None)
        with pytest.raises(SourceError, match=r"has no EntityEvent\. Use --changes timestamps"):
            await into.round(changes="events")
        with pytest.raises(SourceError, match="'Nowhere/Land' is not a time zone"):
            await into.round(time_zone="Nowhere/Land")
    async with serve_in_loop(ServerSettings(without=frozenset({"Property"}))) as server:
        with pytest.raises(SourceError, match="The source has no Property"):
            await ReplicationBench(bench, server, tmp_path).round()
    assert await bench.served(AGENT) == {} if await bench.indices() else True
