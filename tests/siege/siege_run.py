"""One siege: peace, then all attacks at once, while honest keys walk and the memory of the workers is watched."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench.accounting import resident_bytes
from bench.questions import COMPANY
from cluster.connection import connect
from service.keys.store import KeyGrant, KeyStore
from tests.processes import workers_of
from tests.siege import floods, slow_readers
from tests.siege.bombs import attack_clients
from tests.siege.honest_readers import SIEGE, HonestPlan, HonestReport
from tests.siege.target import SiegeTarget

if TYPE_CHECKING:
    from tests.chaos.loaded_service import LoadedCluster, RunningServe
    from tests.siege.bombs import BombOutcome
    from tests.siege.target import Attack

ATTACKS: dict[str, Attack] = {
    "stall": slow_readers.stall,
    "trickle": slow_readers.trickle,
    "heads": slow_readers.trickle_heads,
    "snapshots": slow_readers.hoard_snapshots,
    "strangers": floods.strangers,
    "misspell": floods.misspell,
    "validators": floods.validate_anything,
    "polls": floods.hoard_long_polls,
}
FAILED_ATTACKS = "attacks that failed as a whole"
_WORKERS = 2
_HONEST_KEYS = 3
_HOSTILE_KEYS = 2
_SAMPLE_SECONDS = 0.25
_HOLD_SECONDS = 60.0
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class SiegeScale:
    """The extent of a siege."""

    peace: float  # seconds
    siege: float  # seconds
    connections: int  # of each attack
    bomb_bytes: int  # unpacked
    bomb_seconds: float  # that a client may read a bomb
    attacks: tuple[str, ...] = tuple(ATTACKS)


@dataclass
class SiegeObservations:
    """What was observed; memory in bytes, by worker process."""

    honest: HonestReport
    target: SiegeTarget
    bombs: list[BombOutcome]
    rest: dict[int, int] = field(default_factory=dict)
    peak: dict[int, int] = field(default_factory=dict)
    log: str = ""
    is_ready_after: bool = False


async def besiege(stage: LoadedCluster, scale: SiegeScale) -> SiegeObservations:
    """Run a siege against two workers."""
    honest, hostile = await _keys(stage)
    # Limits of keys are those of an installation, not those of scenarios that share a key.
    async with stage.service("--workers", str(_WORKERS), key_concurrency=8, access_log="none") as serving:
        target = SiegeTarget(serving.url, hostile, scale.connections, min(_HOLD_SECONDS, scale.siege / 3))
        with tempfile.TemporaryDirectory(prefix="brokerage-siege-") as folder:
            found = await _run(stage, serving, target, honest, scale, Path(folder))
        await serving.ready()
        found.is_ready_after, found.log = True, serving.log.read_text()
    return found


async def _keys(stage: LoadedCluster) -> tuple[list[str], tuple[str, ...]]:
    """Return keys of honest readers, and those of attackers with the default rate."""
    async with connect(stage.connection, connections=2, timeout=60) as client:
        store = KeyStore(client, stage.connection.keys_index)
        honest = [
            (await store.create(KeyGrant(f"honest {number}", all_companies=True, rate=None))).reveal()
            for number in range(_HONEST_KEYS)
        ]
        hostile = [
            (await store.create(KeyGrant(f"hostile {number}", all_companies=True))).reveal()
            for number in range(_HOSTILE_KEYS)
        ]
    return honest, tuple(hostile)


async def _run(
    stage: LoadedCluster,
    serving: RunningServe,
    target: SiegeTarget,
    honest: list[str],
    scale: SiegeScale,
    folder: Path,
) -> SiegeObservations:
    file, workers = folder / "honest.json", await _all_workers(serving)
    plan = HonestPlan(serving.url, honest, COMPANY, scale.peace, scale.siege)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.siege.honest_readers",
        str(file),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    found = SiegeObservations(HonestReport(), target, [])
    ended = asyncio.create_task(_read(process, plan, found, workers))
    await ended
    environment = {**os.environ, "ELASTICSEARCH_URL": stage.connection.url[0]}
    environment |= {"BROKERAGE_INDEX_PREFIX": stage.connection.prefix}
    attacking = asyncio.create_task(_attack(target, scale))
    watching = asyncio.create_task(_watch(workers, found.peak))
    found.bombs = await attack_clients(folder, scale.bomb_bytes, scale.bomb_seconds, environment)
    await process.wait()
    await _all_made(target, scale)
    for task in (attacking, watching):
        task.cancel()
    with suppress(asyncio.CancelledError):
        await attacking
    if process.returncode:
        raise RuntimeError(f"The honest readers ended with {process.returncode}.")
    found.honest = msgspec.json.decode(file.read_bytes(), type=HonestReport)
    return found


async def _all_workers(serving: RunningServe) -> list[int]:
    """Return the worker processes, all of them: the service is ready as soon as one is."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while len(workers := workers_of(serving.process.pid)) < _WORKERS:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(_SAMPLE_SECONDS)
    return sorted(workers)


async def _read(
    process: asyncio.subprocess.Process, plan: HonestPlan, found: SiegeObservations, workers: list[int]
) -> None:
    """Start the honest readers; return when peace is over, with the memory of the workers at that time."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("The honest readers have no pipes.")
    process.stdin.write(msgspec.json.encode(plan))
    process.stdin.close()
    while (line := await process.stdout.readline()).strip() != SIEGE.encode():
        if not line:
            raise RuntimeError("The honest readers ended in peace.")
    found.rest = {pid: resident_bytes(pid) for pid in workers}


async def _attack(target: SiegeTarget, scale: SiegeScale) -> None:
    async with asyncio.TaskGroup() as attackers:
        for name in scale.attacks:
            attackers.create_task(_persist(name, target))


async def _persist(name: str, target: SiegeTarget) -> None:
    """Run an attack for ever; what the service does to it must not end the siege."""
    while True:
        try:
            await ATTACKS[name](target)
        except Exception as error:
            target.counter(FAILED_ATTACKS)[f"{name}: {type(error).__name__}"] += 1
            await asyncio.sleep(_SAMPLE_SECONDS)


async def _all_made(target: SiegeTarget, scale: SiegeScale) -> None:
    """Wait until every attack has had an outcome: a short siege on a busy machine may end too early for some."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while _made(target) < len(scale.attacks):  # noqa: ASYNC110 - counters have no event
                await asyncio.sleep(_SAMPLE_SECONDS)


def _made(target: SiegeTarget) -> int:
    return sum(bool(counts) for attack, counts in target.outcomes.items() if attack != FAILED_ATTACKS)


async def _watch(workers: list[int], peak: dict[int, int]) -> None:
    while True:
        for pid in workers:
            peak[pid] = max(peak.get(pid, 0), resident_bytes(pid))
        await asyncio.sleep(_SAMPLE_SECONDS)
