"""Figures of the last minute and the last ten minutes, and charts, computed from the metric history."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from service.console.metric_history import (
    ENGINE_SUBJECT,
    LOOP_SUBJECT,
    ROWS_KIND,
    SECONDS_KIND,
    STATUS_KIND,
    STEP_COUNT,
    STEP_SECONDS,
    Counts,
    HistoryStep,
    merge_steps,
)
from service.telemetry.histogram import quantile

_MINUTE_SECONDS = 60
# Without probes and documentation pages.
_API_PREFIX = "/v1/"


class TrafficFigures(msgspec.Struct):
    """Requests, rates per second and quantiles in seconds, which are None without requests."""

    name: str
    requests: int
    failed: int  # 5xx, or no response from Elasticsearch
    refused: int  # 429
    per_second: float
    rows_per_second: float
    median: float | None
    slowest: float | None  # the 99th percentile


class ChartSeries(msgspec.Struct):
    """One value for each completed step, oldest first."""

    step_seconds: int
    requests: list[float]
    failed: list[float]
    rows: list[float]
    slowest: list[float | None]


class Figures(msgspec.Struct):
    """All figures computed from the metric history."""

    minute: TrafficFigures
    routes: list[TrafficFigures]  # of ten minutes
    engine: TrafficFigures  # of ten minutes
    loop_late: float | None  # seconds, of ten minutes
    charts: ChartSeries


def compute_figures(steps: Iterable[HistoryStep], now: float) -> Figures:
    """Return the figures at the time `now`, in seconds since 1970."""
    by_number, last = merge_steps(steps), int(now) // STEP_SECONDS
    parts = [by_number.get(number, Counter()) for number in range(last - STEP_COUNT + 1, last + 1)]
    minute, total = _sum(parts[-_MINUTE_SECONDS // STEP_SECONDS :]), _sum(parts)
    api = {subject for _, subject, _ in total if subject.startswith(_API_PREFIX)}
    return Figures(
        minute=_traffic("", minute, api, _MINUTE_SECONDS),
        routes=[_traffic(route, total, {route}, STEP_COUNT * STEP_SECONDS) for route in sorted(api)],
        engine=_traffic(ENGINE_SUBJECT, total, {ENGINE_SUBJECT}, STEP_COUNT * STEP_SECONDS),
        loop_late=quantile(_durations(total, {LOOP_SUBJECT}), 0.99),
        charts=_charts([_traffic("", part, api, STEP_SECONDS) for part in parts[:-1]]),
    )


def _sum(parts: Sequence[Counts]) -> Counts:
    counts: Counts = Counter()
    for part in parts:
        counts.update(part)
    return counts


def _traffic(name: str, counts: Counts, subjects: set[str], seconds: float) -> TrafficFigures:
    by_status: Counter[str] = Counter()
    rows = 0
    for (kind, subject, label), count in counts.items():
        if subject in subjects:
            by_status[label] += count if kind == STATUS_KIND else 0
            rows += count if kind == ROWS_KIND else 0
    durations = _durations(counts, subjects)
    return TrafficFigures(
        name=name,
        requests=by_status.total(),
        failed=sum(count for status, count in by_status.items() if status.startswith(("5", "none"))),
        refused=by_status["429"],
        per_second=by_status.total() / seconds,
        rows_per_second=rows / seconds,
        median=quantile(durations, 0.5),
        slowest=quantile(durations, 0.99),
    )


def _durations(counts: Counts, subjects: set[str]) -> Counter[float]:
    """Return the number of requests by upper bound in seconds."""
    durations: Counter[float] = Counter()
    for (kind, subject, bound), count in counts.items():
        if kind == SECONDS_KIND and subject in subjects:
            durations[float(bound)] += count
    return durations


def _charts(parts: Sequence[TrafficFigures]) -> ChartSeries:
    return ChartSeries(
        step_seconds=STEP_SECONDS,
        requests=[part.per_second for part in parts],
        failed=[part.failed / STEP_SECONDS for part in parts],
        rows=[part.rows_per_second for part in parts],
        slowest=[part.slowest for part in parts],
    )
