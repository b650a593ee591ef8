"""The overview behind the console page, from this process, its sibling workers and Elasticsearch."""

import asyncio
import time
from collections.abc import Callable
from importlib.metadata import version

import msgspec

from service.console.figures import Figures, compute_figures
from service.console.metric_history import MetricHistory
from service.console.notices import (
    ConsumerRow,
    Notice,
    NoticeLevel,
    consumer_notices,
    finding_notices,
    headline,
    peer_notices,
    resource_notices,
    traffic_notices,
)
from service.console.resource_summaries import ResourceSummaries, ResourceSummary
from service.console.sibling_workers import SiblingWorkers
from service.console.worker_snapshot import LaneSnapshot, WorkerSnapshot, merge_snapshots, take_snapshot
from service.health.monitor import HealthMonitor
from service.keys.record import ApiKey
from service.services import Services
from service.telemetry.feed_consumers import FeedConsumer, KeyUse

# Rows of the tables of keys and consumers: those with problems first, then the most recent.
_MAX_ROWS = 100


class KeyUseRow(msgspec.Struct):
    """A key and its last use."""

    seen: KeyUse
    name: str
    tier: str


class ConsoleOverview(msgspec.Struct):
    """The body of `/console/data.json`. Times are in seconds since 1970."""

    at: float
    version: str
    level: NoticeLevel
    headline: str
    notices: list[Notice]
    workers: int
    away: list[int]
    resources: list[ResourceSummary]
    figures: Figures
    lanes: list[LaneSnapshot]
    nodes: dict[str, int]
    running: int
    consumers: list[ConsumerRow]
    keys: list[KeyUseRow]


class OperatorConsole:
    """Computes the overview of one process."""

    def __init__(self, services: Services, monitor: HealthMonitor, clock: Callable[[], float] = time.time) -> None:
        """Start the metric history; `clock` returns seconds since 1970."""
        self.history = MetricHistory(services, clock)
        self.siblings = SiblingWorkers(services.settings)
        self._services = services
        self._monitor = monitor
        self._summaries = ResourceSummaries(services)
        self._clock = clock

    def snapshot(self) -> WorkerSnapshot:
        """Return the state of this process."""
        return take_snapshot(self._services, self.history)

    async def fetch_overview(self, host: str, port: int) -> ConsoleOverview:
        """Return the overview, for a request to this address of this process; takes little more than a second."""
        siblings, resources = await asyncio.gather(self.siblings.fetch_all(host, port), self._summaries.read())
        away = [port for port, worker in siblings.items() if worker is None]
        merged = merge_snapshots([self.snapshot(), *filter(None, siblings.values())])
        now = self._clock()
        figures = compute_figures(merged.steps, now)
        consumers = self._consumer_rows(merged, resources, now)
        unsorted = [
            *finding_notices(self._monitor.findings()[0]),
            *traffic_notices(figures),
            *peer_notices(merged.nodes, away),
            *resource_notices(resources, now),
            *consumer_notices(consumers),
        ]
        notices = sorted(unsorted, key=lambda notice: notice.level is not NoticeLevel.WRONG)
        level, sentence = headline(notices)
        return ConsoleOverview(
            at=now,
            version=version("brokerage-server"),
            level=level,
            headline=sentence,
            notices=notices,
            workers=1 + len(siblings),
            away=away,
            resources=resources,
            figures=figures,
            lanes=merged.lanes,
            nodes=merged.nodes,
            running=merged.running,
            consumers=consumers[:_MAX_ROWS],
            keys=self._key_rows(merged)[:_MAX_ROWS],
        )

    def _consumer_rows(self, merged: WorkerSnapshot, resources: list[ResourceSummary], now: float) -> list[ConsumerRow]:
        marks = {summary.resource: summary.mark for summary in resources}
        rows = [
            ConsumerRow(feed, self._name(feed.key_id), feed.trouble(now), _seconds_behind(feed, marks[feed.resource]))
            for feed in merged.feeds
        ]
        return sorted(rows, key=lambda row: (not row.trouble, -row.seen.at))

    def _key_rows(self, merged: WorkerSnapshot) -> list[KeyUseRow]:
        rows = [KeyUseRow(use, self._name(use.key_id), self._tier(use.key_id)) for use in merged.uses]
        return sorted(rows, key=lambda row: (-row.seen.refused_at, -row.seen.at))

    def _key(self, key_id: str) -> ApiKey | None:
        return self._services.keys.cached_keys().get(key_id)

    def _name(self, key_id: str) -> str:
        key = self._key(key_id)
        return key_id if key is None else key.name

    def _tier(self, key_id: str) -> str:
        key = self._key(key_id)
        return "" if key is None else self._services.limiter.tier(key) or ""


def _seconds_behind(feed: FeedConsumer, mark: float | None) -> float | None:
    """Return whole seconds, like watermarks; None before the first complete walk."""
    return None if mark is None or feed.caught is None else max(0.0, int(mark) - feed.caught)
