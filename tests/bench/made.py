"""Results as a run would leave them, with numbers that are easy to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import arms
from bench.results import Environment, Measured, Memory, Results, Round, Walk
from bench.spread import spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.arms import Arm

ROUNDS = 3


def measured(arm: Arm, milliseconds: float, *, cpu: float = 1.0, size: float = 1_000_000) -> Measured:
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
        bytes=size,
        latency_ms=spread(times),
        per_second=spread([1000 * arm.clients / time for time in times]),
        p99_ms=milliseconds * 2,
        percents_ms=[milliseconds * (0.5 + percent / 100) for percent in range(101)],
        cpu_ms=used,
        rounds=[Round(1.0, 1000 * arm.clients / time, time, time * 2, used) for time in times],
    )


def results(milliseconds: Mapping[str, float], cpu: Mapping[str, float] | None = None) -> Results:
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
            segments={"live": 1},
        )
    )
    for group, members in arms.GROUPS.items():
        named = [arm for arm in members if arm.answers in milliseconds]
        found.groups[group] = {
            arm.name: measured(arm, milliseconds[arm.answers], cpu=(cpu or {}).get(arm.answers, 1.0)) for arm in named
        }
    for name in arms.WALKED:
        if name in milliseconds:
            seconds = {"one": milliseconds[name] * 6, "two": milliseconds[name] * 4}
            found.walks[name] = [Walk(seconds, 10, 10_000, {"Elasticsearch": 1.0})]
    found.memory = Memory(64, 1_000_000, 100_000_000, [228_000_000, 228_000_000], "the system's own peak")
    return found


EVERYONE = {
    arms.RAW: 10.0,
    arms.FLOOR: 11.0,
    arms.SERVICE: 12.0,
    arms.TWO_WORKERS: 6.0,
    arms.UNSORTED: 40.0,
    arms.BY_ID: 30.0,
    arms.BY_COMPANY: 48.0,
    arms.PEER: 60.0,
    arms.SERVICE_CANNED: 2.0,
    arms.PEER_CANNED: 20.0,
}
