"""Besiege the service: `python -m tests.siege [--minutes 10] [--only ATTACK...] [--write docs/reliability.md]`.

Peace and attacks alternate, so that both meet the same load of the machine. Prints the figures; the exit code is 1 when
anything was violated.
"""

import argparse
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import uvloop

from embedded import NodeOptions
from tests.siege.judgement import judged
from tests.siege.siege_run import ATTACKS, SiegeScale, besiege
from tests.simulation.nodes import running
from tests.simulation.results import ChaosResults, ScenarioResult, concluded
from tests.simulation.scenario import FULL
from tests.simulation.services import load_cluster

_PEACE_SHARE = 0.2
_ROUNDS = 2
_CONNECTIONS = 100
_BOMB_BYTES = 1_000_000_000
_BOMB_SECONDS = 60.0


def main() -> int:
    given = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started, played = time.monotonic(), ChaosResults()
    outcome = uvloop.run(_play(given))
    played.take("siege", outcome, time.monotonic() - started)
    for figure, value in outcome.figures.items():
        print(f"{figure}: {value}")
    return concluded(played, given.write)


async def _play(given: argparse.Namespace) -> ScenarioResult:
    seconds = given.minutes * 60
    scale = SiegeScale(
        peace=seconds * _PEACE_SHARE / given.rounds,
        siege=seconds * (1 - _PEACE_SHARE) / given.rounds,
        rounds=given.rounds,
        connections=given.connections,
        bomb_bytes=_BOMB_BYTES,
        bomb_seconds=min(_BOMB_SECONDS, seconds / 3),
        attacks=tuple(given.only or ATTACKS),
    )
    async with running(NodeOptions(ephemeral=True)) as nodes, load_cluster(nodes.urls, FULL.listings) as stage:
        found = await besiege(stage, replace(scale, engine_pid=nodes.pid(0)))
        return judged(found, scale.siege * scale.rounds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of peace and siege together")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="how often peace and siege alternate")
    parser.add_argument("--connections", type=int, default=_CONNECTIONS, help="of each attack")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, metavar="ATTACK", help=", ".join(ATTACKS))
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page that the row is written to")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
