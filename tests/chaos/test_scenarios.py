"""The scenarios in short: every fault really happens, and no page is wrong. Their times are `make chaos`'s matter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.chaos.scenarios import SCENARIOS

if TYPE_CHECKING:
    from tests.chaos.ground import Ground
    from tests.chaos.outcome import Outcome


def _sound(outcome: Outcome) -> None:
    assert outcome.requests > 50, outcome
    assert (outcome.wrong, outcome.violations) == (0, []), outcome


async def test_full_disks_cut_answers_and_reset_connections_make_no_page_wrong(ground: Ground) -> None:
    """Full disks are noticed after ten seconds; the others are played meanwhile, each with a service of its own."""
    async with asyncio.TaskGroup() as group:  # what fails ends the others, which mend what they broke
        played = [group.create_task(_played(name, ground)) for name in ("disk", "cuts", "resets")]
    for each in played:
        _sound(each.result())


async def _played(name: str, ground: Ground) -> Outcome:
    return await SCENARIOS[name](ground)


# The last one leaves a node that has to be started again.
@pytest.mark.parametrize("name", ["alias-gone", "freeze", "kill"])
async def test_no_page_is_wrong(ground: Ground, name: str) -> None:
    _sound(await SCENARIOS[name](ground))
