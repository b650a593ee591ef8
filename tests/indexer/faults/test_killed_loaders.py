"""Builds by several processes reach the same state as undisturbed ones, whichever of the processes are killed.

That loaders end with their command is checked, too: until they have, the standard error that they share stays open.
"""

import random
from collections.abc import Callable

from mappings import TEAM
from tests.indexer.changing_sources import second, source
from tests.indexer.conftest import Bench
from tests.indexer.faults.end_state import contents, second_bench, stamped_since, stored_teams
from tests.indexer.faults.process_killer import KillPoint, killer
from tests.indexer.faults.test_killed_runs import SET, TUNED, check, check_stamps, nothing, started

Amount = Callable[[int, int], int]


def moments(seed: int, chance: random.Random) -> list[KillPoint]:
    """Return when to kill the command while it reads, and then when to kill its loaders or, every other time, itself.

    A run that was killed after it had loaded everything has no loaders when it resumes.
    """
    reading = KillPoint("reading", chance.randint(24, 36), only_bulks=True, is_effective=chance.random() < 0.5)
    later = KillPoint(chance.choice(["comparing", "finishing", "swapping"]), chance.randint(1, 12))
    victims = KillPoint("reading", chance.randint(2, 6), only_bulks=True, victims=3)
    return [reading, later if seed % 2 else victims]


async def test_a_build_whose_processes_are_killed_ends_like_an_undisturbed_one(bench: Bench, amount: Amount) -> None:
    count, resumed = amount(1_200, 20_000), list[int]()
    undisturbed = second_bench(bench)
    await started(undisturbed, count)
    before, lines = await undisturbed.mark(TEAM), second(count)
    source(bench, lines)
    report = (await undisturbed.build_folder([TEAM], **TUNED)).report_for("teams")
    expected = await stored_teams(undisturbed)
    for seed in range(amount(1, 24)):
        installation, chance = second_bench(bench, f"killed{seed}-"), random.Random(seed)  # noqa: S311 - repeatable
        await started(installation, count)
        mark, live, known = (
            await installation.mark(TEAM),
            await installation.live(TEAM),
            await stored_teams(installation),
        )
        source(bench, lines)
        async with killer(installation, seed) as doing:
            given = moments(seed, chance)
            arguments = ("reindex", str(installation.folder), "teams", "--processes", "2")
            run = await doing.run(given, *arguments, between=nothing, **SET)
        warned = [each for each in run.summary()["warnings"] if "processes that loaded lines ended" in each]
        assert warned or seed % 2
        await check(installation, run.summary(), vars(report), lines, installation.connection.prefix + live)
        found = await stored_teams(installation)
        assert contents(found) == contents(expected), f"seed {seed}"
        check_stamps(found, mark, known, stamped_since(expected, before))
        resumed += doing.resumed
    assert resumed
