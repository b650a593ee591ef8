"""All faults in turn: `python -m tests.chaos [--short] [--only NAME...] [--write docs/reliability.md] [--report-only]`.

Progress goes to standard error and the table to standard output. The exit code is 1 when anything was violated.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from pathlib import Path

import uvloop

from tests.chaos.ground import FULL, SHORT, Ground, grounded
from tests.chaos.outcome import Outcome
from tests.chaos.report import concluded
from tests.chaos.results import Results
from tests.chaos.scenarios import SCENARIOS


def main() -> int:
    """Play, write, print."""
    given = _arguments()
    # The nodes and services of a run end with it, whoever ends it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    played = Results() if given.report_only else uvloop.run(_play(given))
    return concluded(played, given.write, SCENARIOS)


async def _play(given: argparse.Namespace) -> Results:
    """Play the chosen scenarios on one cluster, each on a whole one."""
    played = Results()
    _tell("starting three nodes and loading them")
    async with grounded(SHORT if given.short else FULL) as ground:
        for name in given.only or SCENARIOS:
            started = time.monotonic()
            _tell(name)
            await ground.nodes.complete()
            outcome = await _outcome(name, ground)
            played.take(name, outcome, time.monotonic() - started)
            _tell(f"{name}: {outcome.requests} requests, {outcome.wrong} wrong, {outcome.failed} failed")
            for sentence in outcome.violations:
                _tell(f"    {sentence}")
    return played


async def _outcome(name: str, ground: Ground) -> Outcome:
    """Play one scenario; one that breaks down is a violation, and the others are played all the same."""
    try:
        return await SCENARIOS[name](ground)
    except Exception as error:
        traceback.print_exc()
        broken = f"it could not be played: {error!r}"
        return Outcome(fault=name, requests=0, wrong=0, failed=0, outage_seconds=0.0, violations=[broken])


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="everything for a moment; times are not judged")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page that the tables are written to")
    parser.add_argument("--report-only", action="store_true", help="write the page anew from the results beside it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
