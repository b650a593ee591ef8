"""The network between the service and its nodes: slow, broken, silent, closed."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bench.accounting import resident_bytes
from tests.chaos.cuts import at_random
from tests.chaos.play import playing
from tests.chaos.probes import ready_status, search_tasks
from tests.chaos.proxy import proxied
from tests.chaos.tally import GOOD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.chaos.ground import Ground
    from tests.chaos.outcome import Outcome
    from tests.chaos.play import Play
    from tests.chaos.proxy import Proxy

_LONG_SECONDS = 30.0  # far beyond any deadline
_SLOW_SECONDS = 1.0
_SHARE = 0.02  # of answers that are cut, and of connections that are reset every tenth of a second
_MEGABYTE = 1e6
_GROWTH = 1.1


@asynccontextmanager
async def _through_proxies(ground: Ground) -> AsyncIterator[tuple[Play, list[Proxy]]]:
    """Run a service that finds each node behind a proxy."""
    async with proxied(ground.nodes.urls) as proxies, playing(ground, urls=[each.url for each in proxies]) as play:
        try:
            yield play, proxies
        finally:
            for proxy in proxies:
                await proxy.heal()


async def all_slow(ground: Ground) -> Outcome:
    """Delay every answer of every node beyond the deadline."""
    extent = ground.extent
    async with _through_proxies(ground) as (play, proxies):
        before = resident_bytes(play.serving.process.pid)
        for proxy in proxies:
            proxy.to_service.delay = _LONG_SECONDS
        await play.read(extent.during + 2 * extent.deadline)
        grown = resident_bytes(play.serving.process.pid) / before
        play.figures["memory of the service"] = f"{before / _MEGABYTE:.0f} MB, then {grown:.2f} of it"
        play.timely(grown <= _GROWTH, f"the service holds {grown:.2f} times the memory it had")
        for proxy in proxies:
            await proxy.heal()
        await _no_tasks_left(play)
    play.punctual()
    return play.outcome(f"answers of all nodes {_LONG_SECONDS:g} s late")


async def _no_tasks_left(play: Play) -> None:
    """Nothing that was given up is still worked on two seconds later, beside what the walks ask for just now."""
    await asyncio.sleep(2)
    tasks = await search_tasks(play.ground.nodes.client, play.ground.stage.connection.prefix)
    old = [seconds for seconds in tasks if seconds > 2]
    play.figures["searches older than 2 s, after it"] = str(len(old))
    play.must(not old, f"{len(old)} searches were still worked on")


async def one_slow(ground: Ground) -> Outcome:
    """Delay one node's answers by a second, and up to another."""
    async with _through_proxies(ground) as (play, proxies):
        proxies[0].to_service.delay = proxies[0].to_service.jitter = _SLOW_SECONDS
        await play.read(ground.extent.during)
        play.figures["median, 99 %"] = f"{play.tally.quantile(0.5):.2f} s, {play.tally.quantile(0.99):.2f} s"
    play.unfailing("while one node was slow")
    play.punctual()
    return play.outcome("answers of one node 1 to 2 s late")


async def resets(ground: Ground) -> Outcome:
    """Reset connections at random."""
    count = 0
    async with _through_proxies(ground) as (play, proxies):
        for _ in range(int(ground.extent.during / 0.1)):
            count += sum(proxy.reset(_SHARE) for proxy in proxies)
            await play.read(0.1)
        play.figures["connections that were reset"] = str(count)
    play.must(count > 0, "no connection was reset")
    play.punctual()
    return play.outcome("connections to all nodes reset at random")


async def cuts(ground: Ground) -> Outcome:
    """Cut answers in the middle of the head, behind it, within and between chunks, and anywhere."""
    async with _through_proxies(ground) as (play, proxies):
        for number, proxy in enumerate(proxies):
            proxy.cutting = at_random(random.Random(number), _SHARE * 2)  # noqa: S311 - the same cuts in every run
        await play.read(ground.extent.during)
        for proxy in proxies:
            proxy.cutting = None
    count = sum(proxy.cuts for proxy in proxies)
    play.figures["answers that were cut"] = str(count)
    play.must(count > 0, "no answer was cut")
    play.punctual()
    return play.outcome("answers of all nodes cut at random places")


async def silent(ground: Ground) -> Outcome:
    """Let one node's network accept everything and pass nothing."""
    async with _through_proxies(ground) as (play, proxies):
        proxies[0].freeze()
        began, ended = await play.read(ground.extent.during)
        seen = play.tally.between(began, ended)
        good = sum(one.kind == GOOD for one in seen)
        play.figures["while it was silent"] = f"{good} of {len(seen)} answered with 200"
        play.must(good > 0, "nothing was answered while the network of one of three nodes was silent")
    play.punctual()
    return play.outcome(f"network of one node silent for {ground.extent.during:g} s")


async def refused(ground: Ground) -> Outcome:
    """Refuse all connections for ten seconds; the service is back by itself and was ready all along."""
    seconds = min(10.0, ground.extent.during)
    async with _through_proxies(ground) as (play, proxies):
        for proxy in proxies:
            proxy.refuse()
        statuses = []
        for _ in range(5):
            began, ended = await play.read(seconds / 5)
            statuses.append(await ready_status(play.serving.url))
        told = {one.kind for one in play.tally.between(began, ended)}
        for proxy in proxies:
            await proxy.heal()
        healed, _ = await play.read(ground.extent.during / 2)
        back = play.tally.regained(healed, 0.01, 1.0)
        play.figures["first answers"] = "never" if back is None else f"{back + 1:.1f} s after they were back, at most"
        play.figures["/readyz meanwhile"] = ", ".join(str(status) for status in sorted(set(statuses)))
        play.must(set(statuses) == {200}, f"/readyz answered {statuses}")
        play.must(told <= {"503"}, f"requests were answered with {sorted(told)}, not with 503 alone")
        play.must(back is not None, "the service did not come back")
    play.punctual()
    return play.outcome(f"all nodes refuse connections for {seconds:g} s")
