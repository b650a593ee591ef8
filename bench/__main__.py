"""The whole measurement: `python -m bench [--quick] [--data DIR] [--only STAGE…] [--report-only]`.

One client measures every arm in interleaved rounds. The results are `performance/results.json` in the folder of the
documentation, the tables of `performance.md`, and what README and `sizing.md` quote of them.
"""

import argparse
import datetime as dt
import os
import platform
import secrets
import signal
from functools import partial
from importlib.metadata import version
from pathlib import Path

import uvloop

from bench import results
from bench.client import Pool
from bench.copies import measure_copies
from bench.load import measure_commands
from bench.measure import FULL, QUICK, SMALLEST, Meter, Progress, reason, watched_by
from bench.questions import GROUPS, ROOT, SERVICE
from bench.quoted import quote
from bench.report import ReportError, figure_table, report
from bench.results import COMMANDS, COPIES, Environment
from bench.stage import Node, Options, companies, load, node, staged
from bench.walks import Company, ServiceWay, walk_all
from cluster.connection import ConnectionSettings
from embedded import VERSION, EmbeddedNodeError

_PACKAGES = ("aiohttp", "elasticsearch", "uvloop", "orjson")


def main() -> None:
    """Measure, write the results, and print the figures."""
    given = _arguments()
    options = _options(given)
    # SIGTERM stops the programs of a run too, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if not given.report_only:
            with node(options) as running:
                uvloop.run(measure(options, running, Progress()))
        found = results.read(options.results)
        report(found, options.docs)
        quote(found, options.docs)
    except (EmbeddedNodeError, ReportError) as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(f"Stopped: what was measured so far is in {options.results}.") from None
    print(figure_table(found))
    print(options.docs / "performance.md")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listings", type=int, help="number of generated listings; 1,000,000, or 30,000 with --quick")
    parser.add_argument("--quick", action="store_true", help="few rounds, for quick checks")
    parser.add_argument(
        "--smallest", action="store_true", help="400 listings and one round, to check that everything runs"
    )
    parser.add_argument("--data", type=Path, help="data folder of the node, whose loaded data is reused")
    parser.add_argument("--heap", type=int, help="the node's heap in MB; 4096, or 1024 with --quick")
    parser.add_argument("--prefix", help="prefix of all index names; unique to the run by default")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="folder for the results")
    parser.add_argument("--only", nargs="*", default=[], help="stages to measure; all by default")
    parser.add_argument("--report-only", action="store_true", help="rewrite the page from the results")
    return parser.parse_args()


def _options(given: argparse.Namespace) -> Options:
    """Return the options of the run; on an existing node with a unique index prefix."""
    url = os.environ.get("ELASTICSEARCH_URL") or None
    small = given.quick or given.smallest
    pages = {"page": 3, "large_page": 20} if given.smallest else {}
    return Options(
        listings=given.listings or (400 if given.smallest else 30_000 if given.quick else 1_000_000),
        size=SMALLEST if given.smallest else QUICK if given.quick else FULL,
        docs=given.docs,
        url=url,
        data=given.data,
        heap_mb=given.heap or (1024 if small else 4096),
        prefix=given.prefix or ("bench-" if url is None else f"bench{secrets.token_hex(4)}-"),
        only=frozenset(given.only),
        **pages,
    )


async def measure(options: Options, node: Node, progress: Progress) -> None:
    """Load what is missing and measure stage after stage; a stage that fails is reported, and the others follow.

    The results are written after each stage, so that a later failure loses nothing.
    """
    connection = ConnectionSettings(url=(node.url,), prefix=options.prefix)
    keys = await load(connection, options.listings, progress)
    walked = await companies(connection)
    found = results.begun(options.results if options.only else None, _environment(options, node, walked))
    pool = Pool()
    try:
        async with staged(options, node, keys, walked, progress) as stage:
            meter = Meter(pool, options.size, stage.processes, found, progress)
            stages = {name: partial(meter.group, name, stage.templates) for name in GROUPS}
            way = ServiceWay(stage.templates.servers[SERVICE], f"{ROOT}/listings", keys.everything, options.large_page)
            stages["walks"] = partial(_walks, options.size.walks, meter, way, walked)
            stages[COPIES] = partial(_copies, connection, keys.everything, options.large_page, meter, walked)
            stages[COMMANDS] = partial(_commands, connection, options.commands, meter)
            for name, run in stages.items():
                if options.only and name not in options.only:
                    continue
                progress.report(f"measuring {name}")
                found.forget(name)
                try:
                    await run()
                except Exception as error:
                    found.absent[name] = reason(error)
                    progress.report(f"{name} failed: {error!r}")
                results.write(found, options.results)
    finally:
        pool.close()


async def _walks(rounds: int, meter: Meter, way: ServiceWay, walked: list[Company]) -> None:
    """Walk all companies, page after page."""
    for number in range(rounds):
        meter.results.walks.append(await walk_all(meter.pool, way, walked, watched_by(SERVICE, meter.processes)))
        meter.progress.report(f"walks: {number + 1} of {rounds}", seldom=True)


async def _copies(connection: ConnectionSettings, key: str, page: int, meter: Meter, walked: list[Company]) -> None:
    """Copy the second largest company."""
    meter.results.copies = await measure_copies(connection, key, walked[1], page, meter)


async def _commands(connection: ConnectionSettings, listings: int, meter: Meter) -> None:
    [url] = connection.url
    meter.results.commands = await measure_commands(url, f"{connection.prefix}commands-", listings, meter)


def _environment(options: Options, node: Node, loaded: list[Company]) -> Environment:
    """Return where and on what is measured."""
    described = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    processors = [line.partition(":")[2].strip() for line in described if line.startswith("model name")]
    packages = {name: version(name) for name in _PACKAGES}
    return Environment(
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        cores=len(os.sched_getaffinity(0)),
        processor=processors[0] if processors else "unknown",
        versions={"Python": platform.python_version(), "Elasticsearch": VERSION, **packages},
        listings=options.listings,
        companies={each.key: each.listings for each in loaded},
        page=options.page,
        large_page=options.large_page,
        heap_mb=node.heap_mb,
    )


if __name__ == "__main__":
    main()
