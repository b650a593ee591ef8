"""What a round says, and `index status` after it: counts, complaints, bad records, how far all is complete."""

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from indexer.reso.client.reso_client import ResoClient
from indexer.reso.replication_status import ReplicationStatus, read_replications, record_replication
from mappings import LISTING, SOLD_LISTING
from tests.indexer.conftest import Bench
from tests.reso.expected_index import ACME, differences
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.running import serve_in_loop
from tests.reso.server.server_settings import ServerSettings
from tests.reso.sync.open_mirror import ON_SALE, put, small_world


async def test_a_round_says_what_came_since_the_one_before(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(ServerSettings(withheld=frozenset({"Teams"}))) as server:
        put(server, "Property", "absurd", **ON_SALE, GarageSpaces=374_524_099_053)
        put(server, "Property", "plain", **ON_SALE)
        async with ReplicationBench(bench, server, tmp_path).rounds(settings={"event_margin": 0}) as rounds:
            first = (await rounds.run_round()).lines
            assert first[:2] == [
                "Teams returned 403: Your licence does not cover Teams. Teams is not read.",
                "Property: 2 read, 2 changed.",
            ]
            assert first[3].startswith("Property.GarageSpaces: 1 left out; for example, 'absurd' is 374524099053: ")
            server.ledger.clear()
            server.patch("Property", "plain", City="Elsewhere")
            assert (await rounds.run_round()).lines == [
                "Property: 1 read, 1 changed.",
                f"{len(server.ledger.visits)} requests, 0.0 MB from the source.",
            ]


async def test_too_many_removals_are_refused_and_all_else_is_sent(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world(properties=30)) as server:
        into = ReplicationBench(bench, server, tmp_path)
        options: dict[str, Any] = {"changes": "timestamps", "settings": {"reconcile_hours": 0.0, "removal_limit": 0.05}}
        await into.round(**options)
        keys = server.keys("Property")
        for key in keys[:11]:
            server.delete("Property", key)
        server.patch("Property", keys[-1], City="Elsewhere")
        done = await into.round(**options)
        assert done.summary.exit_code == 1
        assert done.summary.problems == [
            "Property: the source lacks 11 of 30 known records, more than the share of 0.05 that "
            "BROKERAGE_RESO_REMOVAL_LIMIT allows. None were removed."
        ]
        assert "Elsewhere" in str(await bench.served(LISTING)) + str(await bench.served(SOLD_LISTING))
        assert {kind.split()[1] for kind in await differences(bench, server)} == {"surplus"}
        reported = await into.status()
        assert (reported.complaint, reported.records["Property"], reported.due) == (done.summary.problems[0], 30, 0)
        # It is reported until it is repaired, also by a run that need not compare.
        assert (await into.round(changes="timestamps", settings={"removal_limit": 0.05})).summary.exit_code == 1
        assert (await into.round(changes="timestamps", settings={"removal_limit": 0.5})).summary.exit_code == 0
        assert await differences(bench, server) == {}


async def test_the_index_is_complete_as_of_the_time_at_which_a_round_began_by_the_source_s_clock(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        for began in (dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC), dt.datetime(2026, 3, 2, 10, tzinfo=dt.UTC)):
            monkeypatch.setattr(ResoClient, "source_time", began)
            await into.round()
            assert (await into.status()).complete == began.timestamp() * 1000


async def test_each_bad_record_of_an_update_is_a_letter_of_its_own(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        await into.round()
        for key in (f"{number}{'k' * 200}" for number in range(2)):
            put(server, "Property", key, **ON_SALE)
        # It may be a listing or a sold one: it is reported once.
        put(server, "Property", "unheard", **ON_SALE | {"StandardStatus": "Unheard Of"})
        done = await into.round()
        assert sum(report.dead for report in done.summary.resources) == 3
        assert len({letter["line"] for letter in bench.letters()}) == len(bench.letters()) == 3


async def test_a_first_build_that_is_refused_stays_due_and_is_made_by_the_next_run(
    bench: Bench, tmp_path: Path
) -> None:
    async with serve_in_loop(world=small_world()) as server:
        bad = [f"{number:02}{'k' * 200}" for number in range(12)]
        for key in bad:
            put(server, "Property", key, **ON_SALE)
        into = ReplicationBench(bench, server, tmp_path, dead_letter_limit=0.0)
        assert (await into.round()).summary.exit_code == 1
        reported = await into.status()
        assert (reported.complete, reported.due >= len(bad)) == (None, True)
        for key in bad:
            server.delete("Property", key)
        assert (await into.round()).summary.exit_code == 0
        reported = await into.status()
        assert (reported.complete is not None, reported.due) == (True, 0)
        assert await differences(bench, server) == {}


async def test_sources_that_record_their_state_at_once_do_not_overwrite_each_other(bench: Bench) -> None:
    def standing(number: int) -> ReplicationStatus:
        source = f"https://mls{number}.example.com"
        return ReplicationStatus(source, ACME, [], at=number, complete=None, followed_by="events", records={}, due=0)

    engine, all_of_them = bench.engine(), [standing(number) for number in range(8)]
    await record_replication(engine, standing(0))
    await asyncio.gather(*(record_replication(engine, value) for value in all_of_them))
    assert await read_replications(engine) == all_of_them


async def test_times_without_an_offset_are_said_to_be_taken_as_utc_and_lose_no_state(
    bench: Bench, tmp_path: Path
) -> None:
    async with serve_in_loop() as server:
        put(server, "Property", "a", "b", **ON_SALE, stamped="2026-03-02T01:45:00")
        put(server, "Property", "c", **ON_SALE)
        async with ReplicationBench(bench, server, tmp_path).rounds(changes="timestamps") as rounds:
            first = (await rounds.run_round()).lines
            assert [line for line in first if "offset" in line] == [
                "Property.ModificationTimestamp: 2 without an offset, taken as UTC; for example, 'a' is "
                "'2026-03-02T01:45:00'."
            ]
            # In the hour that comes twice.
            put(server, "Property", "a", **ON_SALE, City="Standard", stamped="2026-03-02T01:10:00")
            await rounds.run_round()
        served = {name: found["record"]["City"] for name, found in (await bench.served(LISTING)).items()}
        assert served["a"] == "Standard"
