"""Two brokerages load in turn, are killed, and load at the same time: neither touches a record of the other."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from mappings import TEAM
from tests.indexer.conftest import Bench
from tests.indexer.faults.process_killer import ProcessKiller, killer
from tests.indexer.faults.test_killed_runs import nothing
from tests.indexer.faults.two_loaders import ENVIRONMENT, Reader, Shop, blocked, live, moments, reading, served
from tests.indexer.rebuild.two_companies import Loader, of, stored, teams

Amount = Callable[[int, int], int]

TEAMS = 60


@dataclass
class Game:
    """The two brokerages and what happened so far."""

    bench: Bench
    shops: list[Shop]
    killers: list[ProcessKiller]
    chance: random.Random
    runs: int = 0
    looks: int = 0
    together: int = 0
    touched: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    async def step(self) -> None:
        """Let one brokerage load, or now and then both at the same time."""
        movers = [self.runs % 2] if self.chance.random() < 0.8 else [0, 1]
        self.together += len(movers) - 1
        before = await stored(self.bench.engine())
        plans = {number: self._plan(number) for number in movers}
        readers = {shop.key: Reader(shop.state, shop.state) for shop in self.shops}
        for number, (arguments, after) in plans.items():
            shop = self.shops[number]
            readers[shop.key] = Reader(shop.state, after, is_rebuilt=arguments[0] == "reindex")
            shop.state = after
        self.runs += len(plans)
        async with reading(self.bench, readers):
            await asyncio.gather(*(self._run(number, arguments) for number, (arguments, _) in plans.items()))
        self._judge(readers)
        found = await stored(self.bench.engine())
        for number in {0, 1} - set(movers):
            key = self.shops[number].key
            old, new = of(before, key), of(found, key)
            self.touched += sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        for number in movers:
            shop = self.shops[number]
            assert await served(self.bench, shop.key) == live(shop.state)

    def _plan(self, number: int) -> tuple[list[str], dict[str, int | None]]:
        shop = self.shops[number]
        if self.chance.random() < 0.6:
            return shop.rebuild(self.chance)
        return shop.update(self.chance, self.bench.folder.parent / f"changes-{self.runs}-{shop.key}")

    async def _run(self, number: int, arguments: list[str]) -> None:
        run = await self.killers[number].run(moments(self.chance), *arguments, between=nothing, **ENVIRONMENT)
        # An update that was killed after its last line resumes behind it, and has nothing to report.
        for report in run.events[-1]["resources"].values():
            assert (report["refusal"], report["dead"]) == (None, 0), report

    def _judge(self, readers: dict[str, Reader]) -> None:
        self.looks += sum(reader.looks for reader in readers.values())
        self.wrong += [f"{key}: {sorted(look)}" for key, reader in readers.items() for look in reader.wrong]


async def test_two_brokerages_that_load_in_turn_and_are_killed_never_touch_each_other(
    bench: Bench, amount: Amount
) -> None:
    shops = [Shop(Loader(bench, key), {f"{key}-{n}": 0 for n in range(TEAMS)}) for key in ("north", "south")]
    for shop in shops:
        assert (await shop.loader.load(teams(shop.key, TEAMS))).exit_code == 0
    async with AsyncExitStack() as stack:
        killers = [await stack.enter_async_context(killer(bench, seed)) for seed in (1, 2)]
        game = Game(bench, shops, killers, random.Random(28))  # noqa: S311 - repeatable
        while game.runs < amount(6, 200):
            await game.step()
    settings = await bench.client.indices.get_settings(index=bench.connection.alias(TEAM))
    assert (game.touched, game.wrong) == ([], [])
    assert not blocked(settings.body)
    kills = sum(killer.kills for killer in killers)
    print(
        f"{game.runs} rebuilds and updates, {game.together} pairs of them at the same time, {kills} killed, "
        f"{game.looks:,} looks: {len(game.touched)} foreign records touched, {len(game.wrong)} looks at mixtures"
    )
