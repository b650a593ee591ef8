"""What each attack costs honest keys: `python -m tests.siege.profile [--only ATTACK...] [--together]`.

Runs each attack alone, and with `--together` all of them, alternating with peace. Each is repeated against a decoy that
answers as slowly as the service did and does no work: what remains is what the attackers need of the machine.
"""

import argparse
import os
from dataclasses import replace

import uvloop

from embedded import NodeOptions
from tests.siege.honest_readers import PEACE, SIEGE
from tests.siege.judgement import slowdown
from tests.siege.siege_run import ATTACKS, SiegeObservations, SiegeScale, besiege
from tests.simulation.nodes import running
from tests.simulation.requests import percentile
from tests.simulation.scenario import FULL
from tests.simulation.services import LoadedCluster, load_cluster

_CONNECTIONS = 100


def main() -> None:
    uvloop.run(_profile(_arguments()))


async def _profile(given: argparse.Namespace) -> None:
    scale = SiegeScale(
        peace=given.seconds / 2,
        siege=given.seconds,
        rounds=given.rounds,
        connections=given.connections,
        bomb_bytes=0,
        bomb_seconds=0.0,
    )
    chosen = [(name,) for name in (ATTACKS if given.only is None else given.only)] + (
        [tuple(ATTACKS)] if given.together else []
    )
    print(
        "attack | target | answers/s | p50, p99 in peace | p50, p99 in siege | p99 ratio | processors in siege | load"
    )
    async with running(NodeOptions(ephemeral=True)) as nodes, load_cluster(nodes.urls, FULL.listings) as stage:
        for attacks in chosen:
            one = replace(scale, attacks=attacks, engine_pid=nodes.pid(0))
            rate = await _row(stage, one)
            if given.decoy and rate:
                connections = given.connections * len(attacks)
                await _row(stage, replace(one, decoy_pause=connections / rate))


async def _row(stage: LoadedCluster, scale: SiegeScale) -> float:
    """Measure and print; return the answers to attackers per second."""
    found = await besiege(stage, scale)
    count = sum(sum(outcomes.values()) for outcomes in found.target.outcomes.values())
    rate = count / (scale.siege * scale.rounds)
    name = "all" if len(scale.attacks) > 1 else scale.attacks[0]
    target = "service" if scale.decoy_pause is None else "decoy"
    cores = ", ".join(f"{who} {number:.2f}" for who, number in found.cores[SIEGE].items())
    values = name, target, f"{rate:.0f}", _times(found, PEACE), _times(found, SIEGE), f"{slowdown(found):.1f}", cores
    print(" | ".join((*values, f"{os.getloadavg()[0]:.1f}")), flush=True)
    return rate


def _times(found: SiegeObservations, phase: str) -> str:
    """Return median and p99 in milliseconds, and the failed answers."""
    answers, failed = found.honest.answers[phase], sum(found.honest.failures[phase].values())
    return f"{percentile(answers, 50) * 1e3:.0f}, {percentile(answers, 99) * 1e3:.0f}" + f" ({failed} failed)" * (
        failed > 0
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of attacks in each round; peace has half of it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=_CONNECTIONS, help="of each attack")
    parser.add_argument("--only", nargs="*", choices=ATTACKS, metavar="ATTACK", help=", ".join(ATTACKS))
    parser.add_argument("--together", action="store_true", help="also all attacks at once")
    parser.add_argument("--decoy", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
