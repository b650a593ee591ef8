"""The whole measurement: `python -m bench [--quick] [--data DIR] [--only STAGE…] [--report-only]`.

One client measures every arm in interleaved rounds. The results are `performance/results.json` in the folder of the
documentation, and the tables of `performance.md`.
"""

import argparse
import os
import secrets
import signal
from pathlib import Path

import uvloop

from bench import results
from bench.loading import unload
from bench.options import FULL, QUICK, SMALLEST, Options, node
from bench.progress import Progress
from bench.report import ReportError, report
from bench.run import measure
from bench.tables import figure_table
from cluster.connection import ConnectionSettings
from embedded import EmbeddedNodeError


def main() -> None:
    """Measure, write the results, and print the figures."""
    given = _arguments()
    options = _options(given)
    # SIGTERM stops the programs of a run too, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if not given.report_only:
            _measure(options)
        found = results.read(options.results)
        report(found, options.docs)
    except (EmbeddedNodeError, ReportError) as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(f"Stopped: what was measured so far is in {options.results}.") from None
    print(figure_table(found))
    print(options.docs / "performance.md")


def _measure(options: Options) -> None:
    with node(options) as running:
        try:
            uvloop.run(measure(options, running, Progress()))
        finally:
            if options.url is not None:
                uvloop.run(unload(ConnectionSettings(url=(running.url,), prefix=options.prefix)))


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


if __name__ == "__main__":
    main()
