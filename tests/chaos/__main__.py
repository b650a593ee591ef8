"""Run all faults: `python -m tests.chaos [--short] [--only NAME...] [--write docs/reliability.md] [--report-only]`.

Progress goes to standard error and the table to standard output. The exit code is 1 when anything was violated.
"""

import argparse
import signal
import sys
import time
import traceback
from pathlib import Path

import uvloop

from tests.chaos.scenarios import SCENARIOS
from tests.simulation.results import ChaosResults, ScenarioResult, concluded, report
from tests.simulation.scenario import FULL, SHORT, ScenarioCluster, scenario_cluster


def main() -> int:
    given = _arguments()
    # The nodes and services of a run end with it, however it ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    played = ChaosResults() if given.report_only else uvloop.run(_play(given))
    return concluded(played, given.write, SCENARIOS)


async def _play(given: argparse.Namespace) -> ChaosResults:
    """Run the chosen scenarios on one cluster, each after it has recovered."""
    played = ChaosResults()
    report("starting three nodes and loading them")
    async with scenario_cluster(SHORT if given.short else FULL) as ground:
        for name in given.only or SCENARIOS:
            started = time.monotonic()
            report(name)
            await ground.nodes.complete()
            outcome = await _outcome(name, ground)
            played.take(name, outcome, time.monotonic() - started)
            report(f"{name}: {outcome.requests} requests, {outcome.wrong} wrong, {outcome.failed} failed")
            for sentence in outcome.violations:
                report(f"    {sentence}")
    return played


async def _outcome(name: str, ground: ScenarioCluster) -> ScenarioResult:
    """Run one scenario; an exception is a violation and does not stop the others."""
    try:
        return await SCENARIOS[name](ground)
    except Exception as error:
        traceback.print_exc()
        broken = f"it could not be played: {error!r}"
        return ScenarioResult(fault=name, requests=0, wrong=0, failed=0, outage_seconds=0.0, violations=[broken])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="everything for a moment; times are not judged")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page that the tables are written to")
    parser.add_argument("--report-only", action="store_true", help="write the page again from the existing results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
