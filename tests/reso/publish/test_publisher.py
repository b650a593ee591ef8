"""What goes out of a mirror: kills, lost mirrors, a sole source, several sources of one company."""

from pathlib import Path

import pytest

from indexer.maintenance.inventory import status
from mappings import AGENT, COMPANY, LISTING
from tests.indexer.conftest import Bench
from tests.records import envelope
from tests.reso.expected_index import ACME, differences
from tests.reso.replication_bench import ReplicationBench
from tests.reso.server.running import serve_in_loop
from tests.reso.sync.open_mirror import ON_SALE, put, small_world


async def test_a_run_killed_before_confirmation_sends_the_same_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        await into.round()
        server.patch("Property", server.keys("Property")[0], PublicRemarks="New")
        server.delete("Member", server.keys("Member")[0])
        with monkeypatch.context() as patched:
            patched.setattr("indexer.reso.publisher.MirrorPublisher._mark_published", _killed)
            with pytest.raises(KeyboardInterrupt):
                await into.round()
        assert await differences(bench, server) == {}
        before = await into.stamps()
        await into.round()
        assert await into.changed(before) == set()
        assert await differences(bench, server) == {}


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


async def test_a_lost_mirror_is_rebuilt_over_live_data(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        await into.round()
        keys = await into.live()
        # What is live is newer than anything that the source will say.
        await into.round()
        into.delete_mirror()
        for key in keys[:3]:
            server.patch("Property", key, City="Elsewhere")
            server.restamp("Property", key, "2020-01-01T00:00:00.000Z")
        server.delete("Property", keys[-1])
        # A record that an event names and the source lacks is removed at once: none is checked here.
        await into.round(settings={"event_margin": 0})
        found = await differences(bench, server)
        assert [(kind.split()[1], names) for kind, names in found.items()] == [("surplus", [keys[-1]])]
        await into.round(is_sole=True, settings={"event_margin": 0})
        assert await differences(bench, server) == {}


async def test_a_sole_source_that_lacks_too_much_deletes_nothing(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop(world=small_world()) as server:
        into = ReplicationBench(bench, server, tmp_path)
        await into.round()
        into.delete_mirror()
        for entity in ("Property", "Member"):
            for key in server.keys(entity):
                server.delete(entity, key)
        refused = await into.round(is_sole=True, settings={"event_margin": 0, "removal_limit": 0.05})
        assert any("They are kept." in complaint for complaint in refused.summary.problems)
        assert refused.summary.exit_code == 1
        assert len(await bench.served(LISTING)) > 0
        await into.round(is_sole=True, settings={"event_margin": 0, "removal_limit": 1.0})
        assert await differences(bench, server) == {}
        # A removed record is neither reported nor deleted again, with this mirror or a new one.
        before = await into.stamps()
        for _ in range(2):
            done = await into.round(is_sole=True, settings={"event_margin": 0, "removal_limit": 0.05})
            assert (done.summary.problems, await into.changed(before)) == ([], set())
            into.delete_mirror()


async def test_a_sole_source_leaves_other_companies_alone(bench: Bench, tmp_path: Path) -> None:
    companies = [envelope(COMPANY), envelope(COMPANY, {"platform_company_id": "other", "numeric_id": "42"})]
    one_each = {resource: [envelope(resource, platform_company_id="other")] for resource in (LISTING, AGENT)}
    await bench.build({COMPANY: companies, **one_each})
    foreign = {resource: set(await bench.served(resource)) for resource in one_each}
    async with serve_in_loop(world=small_world()) as server:
        await ReplicationBench(bench, server, tmp_path).round(is_sole=True)
        for resource, identifiers in foreign.items():
            documents = await bench.served(resource)
            assert len(documents) > len(identifiers) > 0
            assert not any(documents[identifier]["deleted"] for identifier in identifiers)


async def test_two_sources_of_one_company_are_kept_apart_by_a_prefix(bench: Bench, tmp_path: Path) -> None:
    async with serve_in_loop() as one, serve_in_loop() as other:
        for server, city in ((one, "Here"), (other, "There")):
            put(server, "Property", "K", City=city, **ON_SALE)
        await ReplicationBench(bench, one, tmp_path).round(prefix="a-")
        await ReplicationBench(bench, other, tmp_path).round(prefix="b-")
        assert {key: row["record"]["City"] for key, row in (await bench.served(LISTING)).items()} == {
            "a-K": "Here",
            "b-K": "There",
        }
        other.delete("Property", "K")
        await ReplicationBench(bench, other, tmp_path).round(prefix="b-", settings={"reconcile_hours": 0.0})
        assert await ReplicationBench(bench, other, tmp_path).live() == ["a-K"]
        names = [value.name for value in (await status(bench.engine()))[-1].sources]
        assert sorted(names) == sorted([f"{ACME} a- {one.url}", f"{ACME} b- {other.url}"])
