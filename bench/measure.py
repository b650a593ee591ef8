"""Interleaved rounds: each asks every arm of a group once, in an order that turns from round to round.

An arm that fails is reported and does not affect the others.
"""

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from bench.accounting import processor_seconds, processor_seconds_since
from bench.client import Connection, Pool
from bench.questions import CLIENT, GROUPS, Absent, Arm, Template, Templates, store_of
from bench.results import Measured, Results, Round, quantile, spread

_PATIENCE_SECONDS = 300
_PROGRESS_SECONDS = 5.0
_Arm = TypeVar("_Arm")
_RECORD = b'"PlatformListingId":'


@dataclass(frozen=True, kw_only=True)
class Size:
    """How often each group of arms goes round, and how much is asked in a round."""

    rounds: dict[str, int]
    requests: int = 8  # of one client in a round
    requests_each: int = 8  # of each client in a round, where there are several
    warm_up: int = 2  # rounds that do not count
    walks: int = 2


FULL = Size(rounds={"latency": 30, "throughput": 12, "clients": 7, "peers": 12})
QUICK = Size(rounds={"latency": 10, "throughput": 6, "clients": 4, "peers": 6}, walks=3)
# Enough to see that everything runs; its numbers mean nothing.
SMALLEST = Size(rounds=dict.fromkeys(QUICK.rounds, 1), requests=2, requests_each=1, warm_up=1, walks=1)


class Progress:
    """Lines on standard error, with the time since the start."""

    def __init__(self) -> None:
        self._started = self._shown = time.monotonic()

    def report(self, text: str, *, seldom: bool = False) -> None:
        """Show a line; `seldom` leaves it out if another was shown in the last seconds."""
        now = time.monotonic()
        if not seldom or now - self._shown >= _PROGRESS_SECONDS:
            print(f"[{now - self._started:.0f} s] {text}", file=sys.stderr, flush=True)
            self._shown = now


@dataclass(eq=False)
class Taken:
    """One arm while it is measured; `milliseconds` are those of each request, `bytes` of all bodies."""

    arm: Arm
    template: Template
    milliseconds: list[float] = field(default_factory=list)
    bytes: int = 0
    rounds: list[Round] = field(default_factory=list)

    def forget(self) -> None:
        """Reset after the warm-up."""
        self.milliseconds.clear()
        self.rounds.clear()
        self.bytes = 0

    def measured(self) -> Measured:
        """Return what the rounds come to."""
        count = len(self.milliseconds)
        names = self.rounds[0].cpu_ms
        return Measured(
            answers=self.arm.answers,
            question=self.arm.question,
            depth=self.arm.depth,
            clients=self.arm.clients,
            encoding=self.arm.encoding,
            requests=count // len(self.rounds),
            bytes=self.bytes / count,
            latency_ms=spread(self.milliseconds),
            per_second=spread([turn.per_second for turn in self.rounds]),
            p99_ms=quantile(self.milliseconds, 0.99),
            # The system counts in 10 ms: only the sum over all rounds is exact enough.
            cpu_ms={name: sum(turn.cpu_ms[name] for turn in self.rounds) / len(self.rounds) for name in names},
            rounds=self.rounds,
        )


@dataclass(frozen=True)
class Meter:
    """Measures groups of arms: the time of requests, and the processor time of `processes` by name."""

    pool: Pool
    size: Size
    processes: Mapping[str, int]
    results: Results
    progress: Progress

    async def group(self, name: str, templates: Templates) -> None:
        """Measure the arms of a group and write them into the results."""
        taken = [found for arm in GROUPS[name] if (found := await self._begin(name, arm, templates)) is not None]
        for number in range(-self.size.warm_up, 0):
            taken = await self._turn(name, taken, number)
        for entry in taken:
            entry.forget()
        count = self.size.rounds[name]
        for number in range(count):
            taken = await self._turn(name, taken, number)
            self.progress.report(f"{name}: round {number + 1} of {count}", seldom=True)
        self.results.groups[name] = {entry.arm.name: entry.measured() for entry in taken}

    async def _begin(self, name: str, arm: Arm, templates: Templates) -> Taken | None:
        try:
            taken = Taken(arm, templates.of(arm))
            await self._probe(taken.template)
        except Exception as error:
            self._lost(name, arm, error)
            return None
        return taken

    async def _probe(self, template: Template) -> None:
        """Ask once; raise Absent where the answer has another encoding than the arm is about, or too few records."""
        [connection] = await self.pool.take(template.server, 1)
        [request] = template.requests("probe", 1)
        answer = await connection.fetch(request, keep=True)
        encoding = answer.header("content-encoding") or "identity"
        if encoding != template.encoding:
            raise Absent(f"requested {template.encoding}, but the response is {encoding}")
        count = answer.body.count(_RECORD)
        if encoding == "identity" and count < template.records:
            raise Absent(f"the response has {count} listings instead of {template.records}")

    async def _turn(self, name: str, taken: list[Taken], number: int) -> list[Taken]:
        """Ask every arm once; each round begins with another one. Return those that did not fail."""
        failed: list[Taken] = []
        for entry in turned(taken, number):
            try:
                await self._round(entry, number)
            except Exception as error:
                self._lost(name, entry.arm, error)
                failed.append(entry)
        return [entry for entry in taken if entry not in failed]

    async def _round(self, taken: Taken, number: int) -> None:
        """Ask one arm for one round's requests."""
        clients = taken.arm.clients
        count = self.size.requests if clients == 1 else self.size.requests_each * clients
        if taken.arm.depth == "same":
            # All clients ask for one page at the same time, then for the next.
            different = taken.template.requests(f"round {number}", -(-count // clients))
            requests = [request for request in different for _ in range(clients)][:count]
        else:
            requests = taken.template.requests(f"round {number}", count)
        connections = await self.pool.take(taken.template.server, clients)
        watched = watched_by(taken.arm.answers, self.processes)
        before = processor_seconds(watched)
        # Our own is measured closer to the requests: reading the others costs more than some arms.
        own, started = time.process_time(), time.perf_counter()
        milliseconds, size = await ask_all(connections, requests)
        seconds, own = time.perf_counter() - started, time.process_time() - own
        spent = processor_seconds_since(before, watched) | {CLIENT: own}
        used = {name: seconds * 1000 / count for name, seconds in spent.items()}
        taken.milliseconds += milliseconds
        taken.bytes += size
        p50, p99 = quantile(milliseconds, 0.5), quantile(milliseconds, 0.99)
        taken.rounds.append(Round(seconds, count / seconds, p50, p99, used))

    def _lost(self, name: str, arm: Arm, error: Exception) -> None:
        why = self.results.absent[f"{name}: {arm.name}"] = reason(error)
        self.progress.report(f"{name}: {arm.name} is absent: {why}")


def turned(arms: Iterable[_Arm], number: int) -> list[_Arm]:
    """Return the arms in the order of a round, each of which begins with another one."""
    listed = list(arms)
    begin = number % len(listed) if listed else 0
    return listed[begin:] + listed[:begin]


def reason(error: BaseException) -> str:
    """Return the message of an error; of several errors of concurrent tasks, that of the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def watched_by(answers: str, processes: Mapping[str, int]) -> dict[str, int]:
    """Return the processes that have to do with an answer: the program's and its store's, as far as known."""
    return {name: processes[name] for name in (answers, store_of(answers)) if name in processes}


async def ask_all(connections: Sequence[Connection], requests: Sequence[bytes]) -> tuple[list[float], int]:
    """Ask all requests, each client the next one when it has its answer; return times (ms) and body bytes."""
    waiting = iter(requests)
    milliseconds: list[float] = []
    lengths: list[int] = []

    async def client(connection: Connection) -> None:
        for request in waiting:
            started = time.perf_counter()
            answer = await connection.fetch(request)
            milliseconds.append((time.perf_counter() - started) * 1000)
            lengths.append(answer.length)

    async with asyncio.timeout(_PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        for connection in connections:
            tasks.create_task(client(connection))
    return milliseconds, sum(lengths)
