"""The resources of one rebuild are swapped in together, or none of them is."""

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from indexer import RunStage
from indexer.errors import LockedError
from mappings import COMPANY, OFFICE, TEAM
from tests.indexer.client_requests import before, behind
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.indexer.expected_state import at_stage, run_in_thread
from tests.indexer.faults.process_killer import KillPoint, killer
from tests.indexer.rebuild.test_swap_gate import teams
from tests.records import envelope, write

Amount = Callable[[int, int], int]

THREE = (COMPANY, OFFICE, TEAM)


def offices(count: int, name: str = "n") -> list[Any]:
    return [envelope(OFFICE, {"platform_office_id": f"o{number}", "name": name}) for number in range(count)]


async def start(bench: Bench) -> None:
    """Build a company, its offices and its teams."""
    assert (await bench.build({COMPANY: [envelope(COMPANY)], OFFICE: offices(30), TEAM: teams(30)})).exit_code == 0


async def live(bench: Bench) -> list[str]:
    return [(await bench.live(resource)).rpartition("-")[2] for resource in THREE]


async def test_one_refused_resource_leaves_all_of_them_live_as_they_were(bench: Bench) -> None:
    await start(bench)
    summary = await bench.build({COMPANY: [envelope(COMPANY)], OFFICE: offices(3), TEAM: teams(30, name="new")})
    stages = [summary.report_for(resource.alias).stage for resource in THREE]
    assert stages == [RunStage.BUILT, RunStage.REFUSED, RunStage.BUILT]
    assert summary.exit_code == 1
    assert await live(bench) == ["v0001"] * 3
    assert [name for name in await bench.indices() if name.endswith("v0002")] == [
        "companies-v0002",
        "offices-v0002",
        "teams-v0002",
    ]


async def test_what_was_built_with_a_refused_resource_is_not_read_again(bench: Bench) -> None:
    await start(bench)
    await bench.build({COMPANY: [envelope(COMPANY)], OFFICE: offices(3), TEAM: teams(30, name="new")})
    write(bench.folder, {OFFICE: offices(30, name="new")})
    summary = await bench.build_folder(THREE)
    assert summary.exit_code == 0
    assert [summary.report_for(resource.alias).resumed_at for resource in THREE] == [1, 0, 30]
    assert [summary.report_for(resource.alias).read for resource in THREE] == [1, 30, 30]
    assert await live(bench) == ["v0002", "v0003", "v0002"]
    assert {document["record"]["name"] for document in (await bench.served(TEAM)).values()} == {"new"}


async def test_the_output_says_for_every_resource_what_became_of_it(bench: Bench) -> None:
    await start(bench)
    folder = write(bench.folder, {OFFICE: offices(3), TEAM: teams(30, name="new")})
    code, _, err = await run(bench, "reindex", folder)
    assert code == 1
    refused, others = err.splitlines()
    assert "offices-v0002" in refused
    assert others == (
        "companies, teams: built, not live, because all resources of a rebuild go live together and offices "
        "were refused. The new versions are kept, and the next run of the same source takes them."
    )


async def test_all_aliases_move_in_one_request(bench: Bench) -> None:
    await start(bench)
    found: list[list[str]] = []

    async def look(_: object) -> None:
        found.append(await live(bench))

    with behind(bench.client, "POST /_aliases", *[look] * 99):
        assert (await bench.build_folder(THREE)).exit_code == 0
    moments = [now for now, earlier in pairwise([*found, []]) if now != earlier]
    assert moments == [["v0001"] * 3, ["v0002"] * 3]


async def test_updates_between_the_first_build_and_the_swap_are_in_what_it_brings(bench: Bench) -> None:
    await start(bench)
    office = envelope(OFFICE, {"platform_office_id": "o1", "name": "updated"}, updated_at="2026-03-01T00:00:00Z")

    # The offices are built by the time the teams are compared.
    stage = at_stage(RunStage.COMPARING, lambda: run_in_thread(bench, lambda own: own.update({OFFICE: [office]})))
    summary = await bench.build_folder(
        THREE, on_progress=lambda report: stage(report) if report.resource == "teams" else None
    )
    assert summary.exit_code == 0
    assert (await bench.served(OFFICE))["o1"]["record"]["name"] == "updated"
    mark = await bench.mark(OFFICE)
    assert (await bench.served(OFFICE))["o1"]["sequence"] <= mark.sequence
    assert mark.generation.endswith("offices-v0002")


async def test_a_resource_that_cannot_be_swapped_at_the_last_moment_stops_all(bench: Bench) -> None:
    await start(bench)

    async def overtake() -> None:
        fences = await bench.client.indices.get_alias(name=f"{bench.connection.alias(TEAM)}-builder-*")
        for index, body in fences.items():
            await bench.client.indices.delete_alias(index=index, name=list(body["aliases"]))

    swap = f"'alias': '{bench.connection.alias(TEAM)}'"
    with (
        before(bench.client, "POST /_aliases", overtake, having=swap),
        pytest.raises(LockedError, match="not go live"),
    ):
        await bench.build_folder(THREE)
    assert await live(bench) == ["v0001"] * 3
    assert (await bench.build_folder(THREE)).exit_code == 0
    assert await live(bench) == ["v0002"] * 3


async def test_a_run_that_is_killed_around_its_swap_leaves_all_or_nothing(bench: Bench, amount: Amount) -> None:
    await start(bench)
    folder = write(
        bench.folder,
        {COMPANY: [envelope(COMPANY, {"name": "new"})], OFFICE: offices(30, "new"), TEAM: teams(30, name="new")},
    )
    found = list[list[str]]()

    async def look() -> None:
        found.append(await live(bench))

    chance = random.Random(3)  # noqa: S311 - repeatable
    given = [KillPoint("swapping", chance.randint(1, 20)) for _ in range(amount(1, 20))]
    # The third: each of the last two resources has a fence, then all aliases are swapped.
    given += [KillPoint("swapping", 3, only_path="/_aliases", is_effective=done) for done in (False, True)]
    async with killer(bench, 1) as doing:
        await doing.run(given, "reindex", str(folder), *(resource.alias for resource in THREE), between=look)
    await look()
    assert doing.kills > 2
    assert all(len(set(numbers)) == 1 for numbers in found)
    assert found[-1][0] > found[-2][0] > "v0001"  # killed behind its swap, a rebuild is done
    for resource in THREE:
        documents = (await bench.served(resource)).values()
        assert {one["record"]["name"] for one in documents} == {"new"}
        assert max(one["sequence"] for one in documents) <= (await bench.mark(resource)).sequence
