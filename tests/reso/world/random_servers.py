"""Servers by chance: one seed draws all the ways in which a server may differ from another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sample.ingredients import between, pick, seeded_random
from tests.reso.server.server_settings import ServerFault, ServerSettings

if TYPE_CHECKING:
    from random import Random

# Responses that look complete and are not. No reader can see it from one of them alone.
UNDETECTABLE_FAULTS = (ServerFault.EMPTY, ServerFault.STOPS_SHORT)


def random_settings(seed: int, *, with_undetectable: bool = False, **fixed: Any) -> ServerSettings:
    """Return the settings of a server, what is `fixed` aside. Half of all have faults; these lie too if requested."""
    chance = seeded_random(seed, "server")
    most = pick(chance, (20, 50, 200, 2_000))
    ways: dict[str, Any] = {
        "seed": seed,
        "default_page": between(chance, 5, most),
        "max_page": most,
        "paging": pick(chance, ("skip", "token")),
        "strict": chance.random() < 0.5,
        "owes_top_less_skip": chance.random() < 0.5,
        "compares_text": chance.random() < 0.3,
        "shuffles_ties": chance.random() < 0.5,
        "updates_move_rows": chance.random() < 0.5,
        "compresses": chance.random() < 0.5,
        "root_path": pick(chance, ("", "/reso/odata")),
        "tick_every": pick(chance, (1, 1, 7, 60)),
        "drift_ms": pick(chance, (0, 0, 20)),
        "cascades": chance.random() < 0.3,
        "event_gap": pick(chance, (0, 2, 50)),
        "late_share": pick(chance, (0.0, 0.1)),
        "late_requests": between(chance, 1, 5),
        "faults": _faults(chance, lies=with_undetectable),
        "retry_after_seconds": 0,
        "slow_seconds": 0.05,
    }
    return ServerSettings(**(ways | fixed))


def _faults(chance: Random, *, lies: bool) -> dict[ServerFault, float]:
    if chance.random() < 0.5:
        return {}
    kinds = [fault for fault in ServerFault if lies or fault not in UNDETECTABLE_FAULTS]
    return {fault: chance.uniform(0, 0.02) for fault in kinds}
