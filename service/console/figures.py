"""Figures of the last minute and the last ten minutes, and the charts, from what was counted in steps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from service.console.history import ENGINE, LOOP, ROWS, SECONDS, STATUS, STEP_SECONDS, STEPS, Counts, joined
from service.telemetry.histogram import quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.console.history import Step

_MINUTE_SECONDS = 60
# Probes and pages of the documentation are not what partners wait for.
_API = "/v1/"


class Answered(msgspec.Struct):
    """What was answered, rates and all: per second, quantiles in seconds, None where nothing was answered."""

    name: str
    requests: int
    failed: int  # 5xx, or no answer of Elasticsearch
    refused: int  # 429
    per_second: float
    rows_per_second: float
    median: float | None
    slowest: float | None  # the slowest of a hundred is slower than this


class Charts(msgspec.Struct):
    """One value for each step that is over, the oldest first."""

    step_seconds: int
    requests: list[float]
    failed: list[float]
    rows: list[float]
    slowest: list[float | None]


class Figures(msgspec.Struct):
    """All that is drawn from the steps."""

    minute: Answered
    routes: list[Answered]  # of ten minutes
    engine: Answered  # of ten minutes
    loop_late: float | None  # seconds, of ten minutes
    charts: Charts


def figures(steps: Iterable[Step], now: float) -> Figures:
    """Return the figures at a moment, in seconds since 1970."""
    by_number, last = joined(steps), int(now) // STEP_SECONDS
    parts = [by_number.get(number, Counter()) for number in range(last - STEPS + 1, last + 1)]
    minute, whole = _sum(parts[-_MINUTE_SECONDS // STEP_SECONDS :]), _sum(parts)
    api = {subject for _, subject, _ in whole if subject.startswith(_API)}
    return Figures(
        minute=_answered("", minute, api, _MINUTE_SECONDS),
        routes=[_answered(route, whole, {route}, STEPS * STEP_SECONDS) for route in sorted(api)],
        engine=_answered(ENGINE, whole, {ENGINE}, STEPS * STEP_SECONDS),
        loop_late=quantile(_seconds(whole, {LOOP}), 0.99),
        charts=_charts([_answered("", part, api, STEP_SECONDS) for part in parts[:-1]]),
    )


def _sum(parts: Sequence[Counts]) -> Counts:
    counts: Counts = Counter()
    for part in parts:
        counts.update(part)
    return counts


def _answered(name: str, counts: Counts, subjects: set[str], seconds: float) -> Answered:
    by_status: Counter[str] = Counter()
    rows = 0
    for (kind, subject, label), count in counts.items():
        if subject in subjects:
            by_status[label] += count if kind == STATUS else 0
            rows += count if kind == ROWS else 0
    spent = _seconds(counts, subjects)
    return Answered(
        name=name,
        requests=by_status.total(),
        failed=sum(count for status, count in by_status.items() if status.startswith(("5", "none"))),
        refused=by_status["429"],
        per_second=by_status.total() / seconds,
        rows_per_second=rows / seconds,
        median=quantile(spent, 0.5),
        slowest=quantile(spent, 0.99),
    )


def _seconds(counts: Counts, subjects: set[str]) -> Counter[float]:
    spent: Counter[float] = Counter()
    for (kind, subject, bound), count in counts.items():
        if kind == SECONDS and subject in subjects:
            spent[float(bound)] += count
    return spent


def _charts(parts: Sequence[Answered]) -> Charts:
    return Charts(
        step_seconds=STEP_SECONDS,
        requests=[part.per_second for part in parts],
        failed=[part.failed / STEP_SECONDS for part in parts],
        rows=[part.rows_per_second for part in parts],
        slowest=[part.slowest for part in parts],
    )
