"""One run, stage by stage. The results are written after each stage, so that a later failure loses nothing."""

from dataclasses import dataclass
from functools import partial

from bench import results
from bench.arms import GROUPS, SERVICE
from bench.client import Pool
from bench.facts import companies, environment, identifiers
from bench.loading import load
from bench.measure import Meter, watched_by
from bench.options import Node, Options
from bench.progress import Progress
from bench.questions import ROOT
from bench.results import Results
from bench.rounds import Rounds, reason
from bench.stage import Stage, staged
from bench.walks import ServiceWay, walk_all
from cluster.connection import ConnectionSettings


async def measure(options: Options, node: Node, progress: Progress) -> Results:
    """Load what is missing and measure everything."""
    connection = ConnectionSettings(url=(node.url,), prefix=options.prefix)
    key = await load(connection, options.listings, progress)
    found = results.begun(options.results if options.only else None, await environment(options, node, connection))
    pool = Pool()
    try:
        async with staged(options, node, key, await identifiers(connection)) as stage:
            await Run(options, stage, pool, found, progress).everything(connection)
    finally:
        pool.close()
    return found


@dataclass(frozen=True)
class Run:
    """The stages of a run, over one set of programs."""

    options: Options
    stage: Stage
    pool: Pool
    results: Results
    progress: Progress

    async def everything(self, connection: ConnectionSettings) -> None:
        """Measure stage after stage; a stage that fails is reported, and the others follow."""
        stages = {name: partial(self._group, name) for name in GROUPS} | {"walks": partial(self._walks, connection)}
        for name, stage in stages.items():
            if self.options.only and name not in self.options.only:
                continue
            self.progress.report(f"measuring {name}")
            self.results.forget(name)
            try:
                await stage()
            except Exception as error:
                self.results.absent[name] = reason(error)
                self.progress.report(f"{name} failed: {error!r}")
            results.write(self.results, self.options.results)

    async def _group(self, name: str) -> None:
        meter = Meter(self.pool, self.options.size, self.stage.processes)
        await Rounds(meter, self.results, self.progress).group(name, self.stage.templates)

    async def _walks(self, connection: ConnectionSettings) -> None:
        """Walk all companies with the largest page."""
        templates, walked = self.stage.templates, await companies(connection)
        server = templates.servers[SERVICE]
        way = ServiceWay(server, f"{ROOT}/listings", templates.key, self.options.large_page)
        for number in range(self.options.size.walks):
            done = await walk_all(self.pool, way, walked, watched_by(SERVICE, self.stage.processes))
            self.results.walks.append(done)
            self.progress.step("walks", number + 1, self.options.size.walks)
