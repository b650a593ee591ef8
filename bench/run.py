"""One run, stage by stage. The results are written after each, so that what was measured is kept whatever follows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import programs, results
from bench.arms import AFTER, BEFORE, BY_ID, SERVICE, TEXTBOOK, UNSORTED, WALKED, Arm
from bench.changes import change, segments
from bench.client import Pool
from bench.facts import companies, environment, identifiers
from bench.failures import told
from bench.loading import load
from bench.measure import Meter, watched_by
from bench.memory import measure_memory
from bench.questions import ROOT
from bench.rounds import Rounds
from bench.stage import staged, with_peers
from bench.textbook import INDICES
from bench.walks import ServiceWay, TextbookWay, Walker, turned
from cluster.connection import ConnectionSettings
from mappings import LISTING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.node import Node
    from bench.options import Options
    from bench.progress import Progress
    from bench.results import Results
    from bench.stage import Stage
    from bench.walks import Way


async def measure(options: Options, node: Node, progress: Progress) -> Results:
    """Load what is missing and measure everything."""
    connection = ConnectionSettings(url=(node.url,), prefix=options.prefix)
    key = await load(connection, options.listings, progress)
    found = results.begun(options.results if options.only else None, await environment(options, node, connection))
    pool = Pool()
    try:
        async with staged(options, node, key, await identifiers(connection)) as stage:
            await Run(options, node, stage, pool, found, progress).everything(connection)
    finally:
        pool.close()
    return found


@dataclass(frozen=True)
class Run:
    """The stages of a run, over one set of programs."""

    options: Options
    node: Node
    stage: Stage
    pool: Pool
    results: Results
    progress: Progress

    async def everything(self, connection: ConnectionSettings) -> None:
        """Measure stage after stage; one that fails is told, and the others go on."""
        stages: dict[str, Callable[[], Awaitable[None]]] = {
            "latency": lambda: self._group("latency", self.stage),
            "throughput": lambda: self._group("throughput", self.stage),
            "clients": lambda: self._group("clients", self.stage),
            "peers": self._peers,
            "memory": self._memory,
            "walks": lambda: self._walks(connection),
            "updates": lambda: self._updates(connection),
        }
        for name, stage in stages.items():
            if self.options.only and name not in self.options.only:
                continue
            self.progress.tell(f"measuring {name}")
            self.results.forget(name)
            try:
                await stage()
            except Exception as error:
                self.results.absent[name] = told(error)
                self.progress.tell(f"{name} failed: {error!r}")
            results.write(self.results, self.options.results)

    async def _group(self, name: str, stage: Stage) -> None:
        meter = Meter(self.pool, self.options.size, stage.processes)
        await Rounds(meter, self.results, self.progress).group(name, stage.templates)

    async def _peers(self) -> None:
        self.results.peer_reads = self._best_for_peers()
        index = self.options.prefix + INDICES[self.results.peer_reads][0]
        async with with_peers(self.stage, self.node, index, self.progress) as stage:
            await self._group("peers", stage)

    def _best_for_peers(self) -> str:
        """Return the textbook index that answered fastest; the peer sorts by the id alone."""
        found = {
            each: self.results.find("throughput", Arm(each, depth="97 %", clients=8)) for each in (UNSORTED, BY_ID)
        }
        rates = {each: measured.per_second.median for each, measured in found.items() if measured is not None}
        return max(rates, key=rates.__getitem__, default=UNSORTED)

    async def _memory(self) -> None:
        async with programs.service(self.node.url, self.options.prefix) as program:
            await program.ready()
            way = self._way(SERVICE, self.options.page, program.url)
            assert isinstance(way, ServiceWay)  # noqa: S101 - the service's is
            self.results.memory = await measure_memory(program, way, self.pool, self.options.size)

    def _way(self, answers: str, size: int, server: str) -> Way:
        templates = self.stage.templates
        if answers in TEXTBOOK:
            return TextbookWay(server, templates.textbook_target(answers), answers, size)
        return ServiceWay(server, f"{ROOT}/listings", templates.key, size)

    async def _walks(self, connection: ConnectionSettings) -> None:
        """Walk all companies, all ways taking turns company by company; a way that fails is left out."""
        walked, began = await companies(connection), time.monotonic()
        for number in range(self.options.size.walks):
            walkers = {name: self._walker(name) for name in WALKED if f"walk: {name}" not in self.results.absent}
            for name, company in turned(tuple(walkers), walked):
                try:
                    if name in walkers:
                        await walkers[name].company(company, self.options.large_page)
                except Exception as error:
                    self.results.absent[f"walk: {name}"] = told(error)
                    del walkers[name]
                self.progress.tell_sometimes(f"walk {number + 1}: {company.key}, {name}")
            for name, walker in walkers.items():
                self.results.walks.setdefault(name, []).append(walker.done)
            self.progress.step("walks", number + 1, self.options.size.walks, began)

    def _walker(self, name: str) -> Walker:
        server = self.stage.templates.servers[name]
        way = self._way(name, self.options.large_page, server)
        return Walker(way, self.pool, server, watched_by(name, self.stage.processes))

    async def _updates(self, connection: ConnectionSettings) -> None:
        await self._group(BEFORE, self.stage)
        self.progress.tell("changing listings")
        self.results.changed = await change(connection, self.options.changed_share)
        count = await segments(connection, connection.alias(LISTING))
        self.results.environment.segments["live, after updates"] = count
        await self._group(AFTER, self.stage)
