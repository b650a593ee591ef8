"""One siege: peace and attacks alternate, honest keys walk, and the memory of the workers is watched."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench.accounting import resident_bytes
from bench.questions import COMPANY
from cluster.connection import connect
from mappings import LISTING
from service.keys.store import KeyGrant, KeyStore
from service.publishing.publisher import publish
from service.publishing.target import TargetFolder
from service.settings import ServiceSettings
from tests.exports.conftest import Silence
from tests.processes import workers_of
from tests.siege import costly_requests, floods, slow_readers, withdrawn_keys
from tests.siege.bombs import BombOutcome, attack_clients
from tests.siege.decoy import running_decoy
from tests.siege.honest_readers import PAUSE, PEACE, SIEGE, HonestPlan, HonestReport
from tests.siege.target import Attack, SiegeTarget
from tests.simulation.services import LoadedCluster, RunningServe
from tests.simulation.usage import ProcessorClock

ATTACKS: dict[str, Attack] = {
    "stall": slow_readers.stall,
    "trickle": slow_readers.trickle,
    "heads": slow_readers.trickle_heads,
    "snapshots": slow_readers.hoard_snapshots,
    "strangers": floods.strangers,
    "misspell": floods.misspell,
    "validators": floods.validate_anything,
    "polls": floods.hoard_long_polls,
    "files": slow_readers.hoard_files,
    "filters": costly_requests.filter_dearly,
    "expansions": costly_requests.expand_dearly,
    "forms": costly_requests.withhold_forms,
    "revoked": withdrawn_keys.read_with_revoked_keys,
}
FAILED_ATTACKS = "attacks that failed as a whole"
_WORKERS = 2
_HONEST_KEYS = 3
_HOSTILE_KEYS = 2
_SAMPLE_SECONDS = 0.25
_HOLD_SECONDS = 60.0
_PATIENCE_SECONDS = 120.0
_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class SiegeScale:
    """The extent of a siege: `rounds` times peace and then attacks."""

    peace: float  # seconds
    siege: float  # seconds
    connections: int  # of each attack
    bomb_bytes: int  # unpacked; 0 for no bombs
    bomb_seconds: float  # that a client may read a bomb
    attacks: tuple[str, ...] = tuple(ATTACKS)
    rounds: int = 1
    decoy_pause: float | None = None  # attack a decoy that answers after so many seconds instead of the service
    engine_pid: int = 0  # whose processor time is counted, if it is known

    def phases(self) -> list[tuple[str, float]]:
        """Return the phases in order, with their length in seconds; the first requests of a service are slow."""
        return [(PAUSE, _PAUSE_SECONDS), (PEACE, self.peace), (SIEGE, self.siege)] * self.rounds


@dataclass
class SiegeObservations:
    """What was observed; memory in bytes by worker process, processors used by phase and by who used them."""

    honest: HonestReport
    target: SiegeTarget
    bombs: list[BombOutcome] = field(default_factory=list)
    rest: dict[int, int] = field(default_factory=dict)
    peak: dict[int, int] = field(default_factory=dict)
    cores: dict[str, dict[str, float]] = field(default_factory=dict)
    log: str = ""
    is_ready_after: bool = False


async def besiege(stage: LoadedCluster, scale: SiegeScale) -> SiegeObservations:
    """Run a siege against two workers."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(stage.connection, connections=4, timeout=60))
        store = KeyStore(client, stage.connection.keys_index)
        honest, hostile = await _keys(store)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerage-siege-")))
        files = await _publish(stage, folder)
        # Limits of keys are those of an installation, not those of scenarios that share a key.
        service = stage.service("--workers", str(_WORKERS), key_concurrency=8, access_log="none", exports=folder)
        serving = await stack.enter_async_context(service)
        async with _attacked(serving.url, scale) as url:
            hold = min(_HOLD_SECONDS, scale.siege / 3)
            target = SiegeTarget(url, hostile, scale.connections, hold, files=files, store=store)
            found = await _Siege(stage, serving, scale, target).run(honest)
        await serving.ready()
        found.is_ready_after, found.log = True, serving.log.read_text()
    return found


@asynccontextmanager
async def _attacked(url: str, scale: SiegeScale) -> AsyncIterator[str]:
    """Yield the address that is attacked: of the service or of a decoy."""
    if scale.decoy_pause is None:
        yield url
        return
    async with running_decoy(scale.decoy_pause) as decoy:
        yield decoy


async def _keys(store: KeyStore) -> tuple[list[str], tuple[str, ...]]:
    """Return keys of honest readers, and those of attackers with the default rate."""
    honest = [
        (await store.create(KeyGrant(f"honest {number}", all_companies=True, rate=None))).reveal()
        for number in range(_HONEST_KEYS)
    ]
    hostile = [
        (await store.create(KeyGrant(f"hostile {number}", all_companies=True))).reveal()
        for number in range(_HOSTILE_KEYS)
    ]
    return honest, tuple(hostile)


async def _publish(stage: LoadedCluster, folder: Path) -> tuple[str, ...]:
    """Publish files of the company; return the paths that they are served under."""
    published = await publish(stage.connection, ServiceSettings(), TargetFolder(folder), (COMPANY,), Silence())
    return tuple(
        f"/v1/exports/{manifest.resource}/{file.name}?platform_company_id={COMPANY}"
        for manifest in published
        for file in manifest.files
        if manifest.resource == LISTING.alias
    )


class _Siege:
    def __init__(self, stage: LoadedCluster, serving: RunningServe, scale: SiegeScale, target: SiegeTarget) -> None:
        self._stage, self._serving, self._scale = stage, serving, scale
        self._found = SiegeObservations(HonestReport(), target)
        self._tasks: list[asyncio.Task[None]] = []
        self._workers: list[int] = []

    async def run(self, honest: list[str]) -> SiegeObservations:
        self._workers = await _all_workers(self._serving)
        with tempfile.TemporaryDirectory(prefix="brokerage-siege-") as name:
            file = Path(name) / "honest.json"
            source = str(self._stage.source)
            plan = HonestPlan(self._serving.url, honest, COMPANY, source, self._scale.phases())
            process = await _readers(file, plan)
            clock = self._clock(process.pid)
            await self._follow(process, clock)
            await _all_made(self._found.target, self._scale)
            await self._end_attacks()
            self._found.bombs = await self._bomb(Path(name))
            self._found.cores = {phase: clock.cores(phase) for phase in (PEACE, SIEGE)}
            self._found.honest = msgspec.json.decode(file.read_bytes(), type=HonestReport)
        return self._found

    def _clock(self, honest: int) -> ProcessorClock:
        engine = self._scale.engine_pid
        return ProcessorClock({"service": self._serving.pid, "Elasticsearch": engine, "honest readers": honest})

    async def _follow(self, process: asyncio.subprocess.Process, clock: ProcessorClock) -> None:
        """Enter each phase that the readers announce, until they end."""
        assert process.stdout is not None
        async for line in process.stdout:
            phase = line.decode().strip()
            if phase != SIEGE:
                await self._end_attacks()
            clock.enter(phase)
            if phase == SIEGE:
                self._begin_attacks()
        clock.enter(PAUSE)
        if await process.wait():
            raise RuntimeError(f"The honest readers ended with {process.returncode}.")

    def _begin_attacks(self) -> None:
        found = self._found
        found.rest = found.rest or {pid: resident_bytes(pid) for pid in self._workers}
        attacks = _attack(found.target, self._scale), _watch(self._workers, found.peak)
        self._tasks = [asyncio.create_task(one) for one in attacks]

    async def _end_attacks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _bomb(self, folder: Path) -> list[BombOutcome]:
        """Attack the clients, after the service: what they unpack takes processor time from everybody."""
        if not self._scale.bomb_bytes:
            return []
        environment = {**os.environ, "ELASTICSEARCH_URL": self._stage.connection.url[0]}
        environment |= {"BROKERAGE_INDEX_PREFIX": self._stage.connection.prefix}
        return await attack_clients(folder, self._scale.bomb_bytes, self._scale.bomb_seconds, environment)


async def _readers(file: Path, plan: HonestPlan) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "tests.siege.honest_readers", str(file))
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(plan))
    process.stdin.close()
    return process


async def _all_workers(serving: RunningServe) -> list[int]:
    """Return the worker processes, all of them: the service is ready as soon as one is."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while len(workers := workers_of(serving.process.pid)) < _WORKERS:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(_SAMPLE_SECONDS)
    return sorted(workers)


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
