"""Swap, rollback and pruning: what the alias points at, and what stays behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from indexer import RefusedError, previous, prune, rollback, status, superfluous
from indexer.engine import Engine
from indexer.lifecycle import Lifecycle
from mappings import COMPANY, TEAM
from tests.records import envelope

if TYPE_CHECKING:
    from tests.indexer.conftest import Bench


async def build(bench: Bench, name: str, **settings: Any) -> None:
    """Build the companies with one of the given name."""
    summary = await bench.build({COMPANY: [envelope(COMPANY, {"name": name})]}, **settings)
    assert summary.exit_code == 0


async def company_name(bench: Bench) -> str:
    """Return the name that is served."""
    return str((await bench.served(COMPANY))["acme"]["record"]["name"])


async def test_a_rebuild_swaps_and_keeps_as_many_generations_as_are_asked_for(bench: Bench) -> None:
    for number in (1, 2, 3):
        await build(bench, f"name {number}", kept_generations=2)
    assert await bench.indices() == ["companies-v0002", "companies-v0003"]
    assert await company_name(bench) == "name 3"
    await build(bench, "name 4", kept_generations=1)
    assert await bench.indices() == ["companies-v0004"]


async def test_a_rollback_brings_back_what_was_replaced_and_raises_the_epoch(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    before = await bench.mark(COMPANY)
    arguments = bench.client, bench.connection, bench.settings, COMPANY
    prefix = bench.connection.prefix
    assert await previous(*arguments) == (f"{prefix}companies-v0002", f"{prefix}companies-v0001")
    assert await rollback(*arguments) == f"{prefix}companies-v0001"
    assert await company_name(bench) == "old"
    after = await bench.mark(COMPANY)
    assert (after.epoch, after.generation) == (before.epoch + 1, f"{prefix}companies-v0001")
    assert (after.clock, after.sequence) == (before.clock, before.sequence)
    with pytest.raises(RefusedError, match="no earlier generation"):
        await rollback(*arguments)


async def test_after_a_rollback_the_next_build_replaces_what_was_brought_back(bench: Bench) -> None:
    await build(bench, "good")
    await build(bench, "bad")
    await rollback(bench.client, bench.connection, bench.settings, COMPANY)
    await build(bench, "better")
    assert await bench.indices() == ["companies-v0001", "companies-v0003"]
    await rollback(bench.client, bench.connection, bench.settings, COMPANY)
    assert await company_name(bench) == "good"


async def test_pruning_deletes_left_overs_of_failed_builds_and_nothing_that_is_kept(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    lifecycle = Lifecycle(Engine(bench.client, bench.connection, bench.settings), COMPANY)
    left = await lifecycle.create(await lifecycle.generations())
    neighbour = f"{bench.connection.prefix}companies-vx-v0001"
    await bench.client.indices.create(index=neighbour)
    arguments = bench.client, bench.connection, bench.settings
    assert await superfluous(*arguments) == [left]
    assert await prune(*arguments) == [left]
    assert await bench.indices() == ["companies-v0001", "companies-v0002", "companies-vx-v0001"]
    assert await bench.live(COMPANY) == "companies-v0002"


async def test_a_build_that_fails_on_the_way_leaves_the_live_index_and_no_candidate(bench: Bench) -> None:
    await build(bench, "old")

    def stop(_report: object) -> None:
        raise KeyError("the display broke")

    with pytest.raises(KeyError):
        await bench.build({COMPANY: [envelope(COMPANY, {"name": "new"})]}, on_progress=stop)
    assert await company_name(bench) == "old"
    assert await bench.indices() == ["companies-v0001"]


async def test_a_count_that_differs_from_what_was_accepted_refuses_the_swap(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await build(bench, "old")

    async def lose(lifecycle: Lifecycle, index: str) -> None:
        await lifecycle._client.delete(index=index, id="acme", refresh=True)

    monkeypatch.setattr(Lifecycle, "refresh", lose)
    summary = await bench.build({})
    assert "holds 0 documents, but 1 were accepted" in str(summary.of("companies").refusal)
    monkeypatch.undo()
    assert await company_name(bench) == "old"
    assert await bench.indices() == ["companies-v0001"]


async def test_an_index_that_has_the_name_of_an_alias_is_told(bench: Bench) -> None:
    await bench.client.indices.create(index=bench.connection.alias(TEAM))
    summary = await bench.build({TEAM: [envelope(TEAM)]})
    assert "is an index, not an alias: rename or delete that index" in str(summary.of("teams").refusal)
    await bench.client.indices.delete(index=bench.connection.alias(TEAM))


async def test_an_alias_of_two_indices_is_told(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    alias = bench.connection.alias(COMPANY)
    await bench.client.indices.put_alias(index=f"{alias}-v0001", name=alias)
    summary = await bench.build({})
    assert f"The alias {alias} points at {alias}-v0001, {alias}-v0002" in str(summary.of("companies").refusal)


async def test_status_tells_what_is_live_and_what_is_stale(bench: Bench) -> None:
    await build(bench, "old")
    await build(bench, "new")
    first, *others = await status(bench.client, bench.connection, bench.settings)
    prefix = bench.connection.prefix
    assert (first.resource, first.alias) == ("companies", f"{prefix}companies")
    assert (first.live, first.others) == (f"{prefix}companies-v0002", [f"{prefix}companies-v0001"])
    assert (first.documents, first.tombstones, first.is_current) == (1, 0, True)
    assert first.size > 0
    assert first.mark == (await bench.mark(COMPANY)).clock
    assert all(other.live is None and other.mark is None and not other.is_current for other in others)
    await bench.client.indices.put_mapping(index=f"{prefix}companies-v0002", meta={"fingerprint": "another"})
    assert (await status(bench.client, bench.connection, bench.settings))[0].is_current is False
