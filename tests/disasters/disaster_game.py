"""The game: consumers of one run, what operators do about its disasters, and the search for lies."""

import math
import secrets

from mappings import LISTING, SOLD_LISTING, Resource
from tests.disasters.disaster_run import DisasterRun, RunLog
from tests.disasters.disaster_world import HOME, DisasterWorld
from tests.disasters.readers import PullClient, Reader, TokenFollower, WatermarkPoller
from tests.simulation.history import FEEDS
from tests.simulation.model import CHILDREN, LONE, NUMBERS, Change, FeedQuery, RecordForm

_CHILD, _TWO = frozenset(CHILDREN[:1]), frozenset((CHILDREN[0], LONE))
_ATTEMPTS = 3


class Lie(AssertionError):
    """A consumer believes that its copy is current, and it is not."""


class Stop(AssertionError):
    """Everything is repaired, and someone still cannot continue."""


class DisasterGame:
    def __init__(self, world: DisasterWorld, log: RunLog) -> None:
        """Make the consumers: followers and pollers of both resources, and the client of the product."""
        log.begin()
        self.log = log
        self.is_unseen = False  # what befell the indices, by the service
        name = f"run-{secrets.token_hex(4)}"
        self.run = DisasterRun(world, name, log)
        folder = world.folder / "copies" / name
        folder.mkdir(parents=True)
        self.pollers = [
            WatermarkPoller(FeedQuery(LISTING, "two", {"platform_company_id": CHILDREN[0]}, _CHILD), 2, log),
            WatermarkPoller(FeedQuery(SOLD_LISTING, "all", {}, frozenset(NUMBERS)), 3, log),
        ]
        self.readers: list[Reader] = [
            TokenFollower(FeedQuery(LISTING, "child", {}, _CHILD), 2, log),
            TokenFollower(FeedQuery(LISTING, "two", {}, _TWO, "on-market"), 5, log),
            TokenFollower(FeedQuery(SOLD_LISTING, "all", {}, frozenset(NUMBERS)), 3, log),
            PullClient(folder, log),
            *self.pollers,
        ]

    async def start(self, given: list[tuple[int, Change]]) -> None:
        await self.run.start()
        for resource in FEEDS:
            assert await self.run.update(resource, self.run.sources[resource].changed(given))

    async def read(self, which: int, pages: float, process: int) -> None:
        """Let a consumer read. If it believes to be current while the indexer is idle, that must be so."""
        reader = self.readers[which % len(self.readers)]
        if self.is_unseen:
            await self.run.look()
            self.is_unseen = False
        is_current = await reader.read(self.run.process(process), self.run.world.keys, pages)
        # Who reads by time cannot know that records went back before a new epoch of them has begun.
        is_told = reader not in self.pollers or not (self.run.steps or self.run.undeclared & {*reader.resources})
        if is_current and is_told and self.run.is_idle:
            await self._check(reader)

    async def _check(self, reader: Reader) -> None:
        for resource in reader.resources:
            served = await self.run.served(resource)
            if served is None:
                raise Lie(
                    f"{type(reader).__name__}: nothing is served of {resource.alias}, and it is current: {reader}"
                )
            if not served.is_settled:
                self.log.counts["unsettled"] += 1
            elif missing := reader.missing(resource, served.names):
                raise Lie(f"{type(reader).__name__}, {resource.alias}: served and copied: {missing} {reader}")
            else:
                self.log.counts["proofs of being current"] += 1

    def announce(self) -> None:
        """Ask readers by time to start over: their watermarks are those of foreign indices."""
        for poller in self.pollers:
            poller.start_over()

    async def restore(self, backup: str, scope: str, resource: Resource, *, is_declared: bool) -> None:
        """Lose indices; restoring them, and declaring it, is up to the operators."""
        run = self.run
        pattern = {
            "everything": run.pattern,
            "one resource": run.generations(resource),
            "control": run.bench.connection.control_index,
        }[scope]
        await run.lose(pattern)
        run.steps = [lambda: run.restore(backup, pattern), *([run.begin_new_epochs] if is_declared else [])]

    async def lose_everything(self) -> None:
        """Lose all indices; building them again is up to the operators."""
        await self.run.lose(self.run.pattern)
        self.run.steps = [self.run.reindex, self.run.begin_new_epochs]

    async def step(self) -> None:
        """Let operators take their next step; one that is not possible yet is taken again later."""
        self.run.take_time()
        if await self.run.steps[0]():
            self.run.steps.pop(0)

    async def move_service(self, place: str) -> None:
        if place != self.run.place:
            self.run.place = place
            self.announce()

    async def pass_by(self) -> None:
        """Do nothing."""

    async def settle(self) -> None:
        """End all disasters, publish a change of each resource, and let everyone read to the end."""
        run = self.run
        await run.go_on()
        run.set_clocks()
        await self._repair()
        for _ in range(2 * _ATTEMPTS):
            if run.steps:
                await self.step()
                await self._repair()  # a backup may have been taken of closed indices, or while disks were full
        if run.steps:
            raise Stop("operators cannot take their next step")
        await self.move_service(HOME)
        for resource in FEEDS:
            await self._publish(resource)
        await run.look()
        for number, reader in enumerate(self.readers):
            await self._become_current(reader, number % 2)

    async def _repair(self) -> None:
        await self.run.open()
        await self.run.fill_disk(is_full=False)

    async def _publish(self, resource: Resource) -> None:
        for attempt in range(_ATTEMPTS):
            lines = self.run.sources[resource].changed([(attempt, RecordForm(CHILDREN[0], "Active"))])
            if await self.run.update(resource, lines):
                return
        raise Stop(f"{resource.alias} cannot be published")

    async def _become_current(self, reader: Reader, process: int) -> None:
        for _ in range(_ATTEMPTS):
            if await reader.read(self.run.process(process), self.run.world.keys, math.inf):
                await self._check(reader)
                return
            await self.run.look()
        raise Stop(f"{type(reader).__name__} never becomes current: {reader}")

    async def end(self) -> None:
        await self.run.end()
