"""Nodes that die, and nodes that fall silent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mappings import LISTING
from tests.chaos.play import playing
from tests.chaos.tally import GOOD

if TYPE_CHECKING:
    from tests.chaos.ground import Ground
    from tests.chaos.outcome import Outcome
    from tests.chaos.play import Play

_FAILED_SHARE = 0.005  # of the requests of the 30 seconds that follow
_BACK_SECONDS = 5.0  # after the cluster's own recovery
_BACK_SHARE = 0.9  # of the rate before


async def killed(ground: Ground) -> Outcome:
    """Kill the node that holds the listings."""
    number = await ground.nodes.holder(ground.stage.connection.alias(LISTING))
    return await _killed(ground, number, "the one that holds the listings")


async def killed_master(ground: Ground) -> Outcome:
    """Kill the elected master."""
    return await _killed(ground, await ground.nodes.master(), "the elected master")


async def _killed(ground: Ground, number: int, which: str) -> Outcome:
    nodes, extent = ground.nodes, ground.extent
    async with playing(ground) as play:
        moment = time.monotonic()
        nodes.kill(number)
        mended = await nodes.mended(len(nodes.urls) - 1)
        await play.read(max(extent.during - mended, extent.after))
        _regained(play, moment, moment + mended)
        if extent.is_timed:  # else whoever needs the node brings it back
            await nodes.complete()
    return play.outcome(f"SIGKILL of one of three nodes, {which}, during {extent.walkers} walks")


def _regained(play: Play, moment: float, mended: float) -> None:
    """Judge the share of failures, and how soon the rate was what it had been."""
    tally, during = play.tally, play.ground.extent.during
    following = tally.ended(moment, moment + during)
    failed = sum(one.kind != GOOD for one in following)
    play.figures["failed in the following"] = f"{failed} of {len(following)} in {during:g} s"
    play.timely(failed <= _FAILED_SHARE * len(following), f"{failed} of {len(following)} requests failed")
    before = tally.median_rate(moment - play.ground.extent.before, moment)
    back = tally.regained(mended, _BACK_SHARE * before)
    play.figures["cluster's own recovery"] = f"{mended - moment:.1f} s"
    play.figures["90 % of the rate"] = (
        "never" if back is None else f"{back:.1f} s after that ({before:g} a second before)"
    )
    play.timely(back is not None and back <= _BACK_SECONDS, f"the rate was back {back} s after the cluster's recovery")


async def frozen(ground: Ground) -> Outcome:
    """Halt the node that holds the listings, and let it go on."""
    nodes, extent = ground.nodes, ground.extent
    number = await nodes.holder(ground.stage.connection.alias(LISTING))
    async with playing(ground) as play:
        nodes.freeze(number)
        try:
            began, ended = await play.read(extent.during * 1.5)
        finally:
            nodes.thaw(number)
        await nodes.whole()
        while_frozen = play.tally.between(began, ended)
        good = sum(one.kind == GOOD for one in while_frozen)
        play.figures["while it was halted"] = f"{good} of {len(while_frozen)} answered with 200"
        play.must(good > 0, "nothing was answered while one of three nodes was halted")
    play.punctual()
    return play.outcome(f"SIGSTOP of one of three nodes for {extent.during * 1.5:g} s, then SIGCONT")
