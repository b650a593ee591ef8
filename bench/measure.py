"""Interleaved rounds: each asks every arm of a group once, in an order that turns from round to round."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.accounting import processor_seconds
from bench.arms import Arm
from bench.client import Connection, Pool
from bench.options import Size
from bench.results import Measured, Round
from bench.spread import quantile, spread
from bench.templates import Absent, Template

CLIENT = "client"
ENGINE = "Elasticsearch"
_PATIENCE_SECONDS = 300
_RECORD = b'"PlatformListingId":'


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
        each = count // len(self.rounds)
        names = self.rounds[0].cpu_ms
        return Measured(
            answers=self.arm.answers,
            question=self.arm.question,
            depth=self.arm.depth,
            clients=self.arm.clients,
            encoding=self.arm.encoding,
            requests=each,
            bytes=self.bytes / count,
            latency_ms=spread(self.milliseconds),
            per_second=spread([each.per_second for each in self.rounds]),
            p99_ms=quantile(self.milliseconds, 0.99),
            # The system counts in 10 ms: only the sum over all rounds is exact enough.
            cpu_ms={name: sum(each.cpu_ms[name] for each in self.rounds) / len(self.rounds) for name in names},
            rounds=self.rounds,
        )


@dataclass(frozen=True)
class Meter:
    """Sends requests and measures their time, and the CPU time of `processes` by name."""

    pool: Pool
    size: Size
    processes: Mapping[str, int]

    async def probe(self, template: Template) -> None:
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

    async def round(self, taken: Taken, number: int) -> None:
        """Ask one arm for one round's requests."""
        clients = taken.arm.clients
        count = self.size.requests if clients == 1 else self.size.requests_each * clients
        requests = self._requests(taken, number, count)
        connections = await self.pool.take(taken.template.server, clients)
        watched = watched_by(taken.arm.answers, self.processes)
        before = processor_seconds(watched)
        # Our own is measured closer to the requests: reading the others costs more than some arms.
        own, started = time.process_time(), time.perf_counter()
        milliseconds, size = await ask_all(connections, requests)
        seconds, own = time.perf_counter() - started, time.process_time() - own
        after = processor_seconds(watched)
        used = {name: (after[name] - before[name]) * 1000 / count for name in before} | {CLIENT: own * 1000 / count}
        taken.milliseconds += milliseconds
        taken.bytes += size
        p50, p99 = quantile(milliseconds, 0.5), quantile(milliseconds, 0.99)
        taken.rounds.append(Round(seconds, count / seconds, p50, p99, used))

    def _requests(self, taken: Taken, number: int, count: int) -> list[bytes]:
        if taken.arm.depth != "same":
            return taken.template.requests(f"round {number}", count)
        # All clients ask for one page at the same time, then for the next.
        clients = taken.arm.clients
        different = taken.template.requests(f"round {number}", -(-count // clients))
        return [request for request in different for _ in range(clients)][:count]


def watched_by(answers: str, processes: Mapping[str, int]) -> dict[str, int]:
    """Return the processes that have to do with an answer: the program's and Elasticsearch's, as far as known."""
    return {name: processes[name] for name in (answers, ENGINE) if name in processes}


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
