"""Results as a run would leave them, with numbers that are easy to compare."""

from collections.abc import Mapping

from bench.questions import (
    BY_COMPANY,
    BY_IDENTIFIER,
    FASTAPI,
    GROUPS,
    POSTGRES,
    RAW,
    RELAY,
    SERVICE,
    TWO_WORKERS,
    UNSORTED,
    Arm,
)
from bench.results import Command, Commands, Copied, Copies, Environment, Measured, Results, Round, Walk, spread

EVERYONE = {
    RAW: 10.0,
    SERVICE: 12.0,
    TWO_WORKERS: 6.0,
    RELAY: 9.0,
    FASTAPI: 60.0,
    POSTGRES: 18.0,
    UNSORTED: 48.0,
    BY_IDENTIFIER: 24.0,
    BY_COMPANY: 36.0,
}


def measured(arm: Arm, milliseconds: float, *, cpu: float = 1.0) -> Measured:
    """Return an arm whose rounds take 0.9, 1 and 1.1 times the given milliseconds; `cpu` is its process's."""
    times = [milliseconds * factor for factor in (0.9, 1.0, 1.1)]
    used = {arm.answers: cpu, "Elasticsearch": 10.0, "client": 0.5}
    return Measured(
        answers=arm.answers,
        question=arm.question,
        depth=arm.depth,
        clients=arm.clients,
        encoding=arm.encoding,
        requests=8,
        bytes=1_000_000,
        latency_ms=spread(times),
        per_second=spread([1000 * arm.clients / time for time in times]),
        p99_ms=milliseconds * 2,
        cpu_ms=used,
        rounds=[Round(1.0, 1000 * arm.clients / time, time, time * 2, used) for time in times],
    )


def results(milliseconds: Mapping[str, float], cpu: float = 1.0) -> Results:
    """Return results in which each program answers everything in the same time; without those that are not named."""
    found = Results(
        Environment(
            date="2026-01-02",
            cores=2,
            processor="Example",
            versions={"Elasticsearch": "9.5.3"},
            listings=1000,
            companies={"one": 600, "two": 400},
            page=200,
            large_page=1000,
            heap_mb=1024,
        )
    )
    for group, members in GROUPS.items():
        named = [arm for arm in members if arm.answers in milliseconds]
        found.groups[group] = {arm.name: measured(arm, milliseconds[arm.answers], cpu=cpu) for arm in named}
    if SERVICE in milliseconds:
        seconds = {"one": milliseconds[SERVICE] * 6, "two": milliseconds[SERVICE] * 4}
        found.walks.append(Walk(seconds, 10, 10_000, {"Elasticsearch": 1.0}))
        taken = [Copied(time, 3_000_000, {SERVICE: 0.3, "Elasticsearch": 0.6}) for time in (1.0, 2.0, 3.0)]
        found.copies = Copies("two", 600, {"snapshot": taken}, 1.5, 80_000_000, 120_000_000)
        update = Command(50, 2.0, {"indexer": 0.5, "Elasticsearch": 1.5}, 100_000_000)
        found.commands = Commands(1000, 7_000_000, 2_000_000, {"update of 1 in 20": update})
    return found
