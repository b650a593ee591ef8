"""The page of the console: what is going on, what needs attention, and its routes on the port of metrics."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from cluster.control_index import troubles_sentence
from cluster.index_state import fragmentation_sentence
from cluster.terminal import counted
from mappings import LISTING, SOLD_LISTING
from service.capability import text_with
from service.console.consumers import FeedConsumer, KeyUse
from service.console.history import MetricHistory
from service.console.summaries import (
    WORKER_SNAPSHOT_PATH,
    Figures,
    LimitSnapshot,
    ResourceSummaries,
    ResourceSummary,
    SiblingWorkers,
    WorkerSnapshot,
    compute_figures,
    merge_snapshots,
    take_snapshot,
)
from service.health.checks import Finding, FindingState
from service.health.monitor import HEALTH_MONITOR, HealthMonitor
from service.http.responses import CONTENT_POLICY
from service.keys.api_key import ApiKey, mask_keys
from service.search.cached_value import refresh_all
from service.services import SERVICES, Services
from service.subscriptions import KnownSubscriptions, Subscriptions, SubscriptionSummary

MAX_FAILED_SHARE = 0.01
MAX_P99_SECONDS = 1.0
MAX_LOOP_LAG_SECONDS = 0.1
MAX_MARK_AGE_SECONDS = 24 * 3600
# Listings change every day; the other resources may not.
_DAILY_RESOURCES = {LISTING.alias, SOLD_LISTING.alias}


class NoticeLevel(StrEnum):
    """The severity of a notice, in the terms of `brokerage doctor`."""

    WRONG = "wrong"
    WARNING = "warning"
    WELL = "well"


_LEVELS = {
    FindingState.WRONG: NoticeLevel.WRONG,
    FindingState.WARNING: NoticeLevel.WARNING,
    FindingState.UNKNOWN: NoticeLevel.WARNING,
}


class Notice(msgspec.Struct):
    level: NoticeLevel
    text: str
    remedy: str = ""


class ConsumerRow(msgspec.Struct):
    """A consumer, its problem, and the seconds by which what it has read completely is behind what is published."""

    seen: FeedConsumer
    name: str
    trouble: str
    behind: float | None


def finding_notices(findings: Iterable[Finding]) -> Iterator[Notice]:
    for finding in findings:
        if (level := _LEVELS.get(finding.state)) is not None:
            text = f"{finding.subject}: {finding.problem}. {finding.detail}".strip()
            yield Notice(level, text, finding.remedy)


def resource_notices(resources: Iterable[ResourceSummary], now: float) -> Iterator[Notice]:
    """Yield resources without updates that should change every day, refused builds, and indices to compact."""
    for summary in resources:
        name, mark, build = summary.resource, summary.mark, summary.build
        if name in _DAILY_RESOURCES and mark is not None and now - mark > MAX_MARK_AGE_SECONDS:
            text = f"{name}: no changes published for {counted(int((now - mark) // 3600), 'hour')}."
            yield Notice(NoticeLevel.WARNING, text, "See the last run and unfinished ones: `brokerage index status`.")
        if build is not None and build.refusal is not None:
            text = f"{name}: the build of {build.candidate} was refused. {build.refusal}"
            remedy = f"Fix the source, then run `brokerage index reindex SOURCE {name}`."
            yield Notice(NoticeLevel.WARNING, text, remedy)
        if summary.troubles.count:
            text = f"{name}: {troubles_sentence(summary.troubles)}"
            yield Notice(NoticeLevel.WARNING, text, f"List them: `brokerage index troubles {name}`.")
        if summary.fragmentation is not None and summary.fragmentation.is_fragmented:
            text = f"{name}: {fragmentation_sentence(summary.fragmentation)}"
            yield Notice(NoticeLevel.WARNING, text, f"Merge them: `brokerage index compact {name}`.")


def traffic_notices(figures: Figures) -> Iterator[Notice]:
    """Yield failed requests, slow routes and event loop lag."""
    minute = figures.minute
    if minute.failed > MAX_FAILED_SHARE * minute.requests:
        text = f"{minute.failed} of {counted(minute.requests, 'request')} in the last minute failed."
        yield Notice(NoticeLevel.WRONG, text, "See the log for the causes.")
    for route in figures.routes:
        if route.slowest is not None and route.slowest > MAX_P99_SECONDS:
            text = f"{route.name}: 1 % of the responses take longer than {route.slowest:.1f} s."
            yield Notice(NoticeLevel.WARNING, text, "See which layer grew: `brokerage_layer_seconds`.")
    if figures.loop_late is not None and figures.loop_late > MAX_LOOP_LAG_SECONDS:
        text = f"The event loop lags by {figures.loop_late * 1000:.0f} ms (99th percentile)."
        remedy = "Another process uses the CPU, or there are too few cores for the workers."
        yield Notice(NoticeLevel.WARNING, text, remedy)


def consumer_notices(consumers: Iterable[ConsumerRow]) -> Iterator[Notice]:
    for consumer in consumers:
        if consumer.trouble:
            seen = consumer.seen
            text = f"{consumer.name or seen.key_id} ({seen.method}, {seen.resource}) {consumer.trouble}."
            yield Notice(NoticeLevel.WARNING, text, "Contact its owner; the table of consumers shows the cursor.")


def subscription_notices(known: KnownSubscriptions, now: float) -> Iterator[Notice]:
    for problem in known.problems(now):
        level = NoticeLevel.WRONG if problem.concerns_all else NoticeLevel.WARNING
        yield Notice(level, problem.text, problem.remedy)


def peer_notices(nodes: dict[str, int], away: Sequence[int]) -> Iterator[Notice]:
    """Yield Elasticsearch nodes and workers of this host that do not respond; `away` are metrics ports."""
    for state, phrase in (("failed", "failed recently"), ("silent", "do not respond")):
        if nodes[state]:
            text = f"Elasticsearch: {nodes[state]} of {sum(nodes.values())} nodes {phrase}."
            yield Notice(NoticeLevel.WARNING, text)
    for port in away:
        text = f"The worker on metrics port {port} does not respond: its figures are missing here."
        yield Notice(NoticeLevel.WARNING, text, "The log reports exits and restarts of workers.")


def headline(notices: Sequence[Notice]) -> tuple[NoticeLevel, str]:
    if not notices:
        return NoticeLevel.WELL, "All is well."
    worst = NoticeLevel.WRONG if any(notice.level is NoticeLevel.WRONG for notice in notices) else NoticeLevel.WARNING
    count = sum(notice.level is worst for notice in notices)
    if worst is NoticeLevel.WRONG:
        return worst, "1 problem." if count == 1 else f"{count} problems."
    return worst, "1 warning." if count == 1 else f"{count} warnings."


# Rows of the tables of keys and consumers: those with problems first, then the most recent.
_MAX_ROWS = 100


class KeyUseRow(msgspec.Struct):
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
    limits: list[LimitSnapshot]
    nodes: dict[str, int]
    running: int
    consumers: list[ConsumerRow]
    subscriptions: list[SubscriptionSummary]
    keys: list[KeyUseRow]


class OperatorConsole:
    def __init__(self, services: Services, monitor: HealthMonitor, clock: Callable[[], float] = time.time) -> None:
        """Start the metric history; `clock` returns seconds since 1970."""
        self.history = MetricHistory(services, clock)
        self.siblings = SiblingWorkers(services.settings)
        self._services = services
        self._monitor = monitor
        self._summaries = ResourceSummaries(services)
        self._clock = clock

    def snapshot(self) -> WorkerSnapshot:
        return take_snapshot(self._services, self.history)

    async def fetch_overview(self, host: str, port: int) -> ConsoleOverview:
        """Return the overview, for a request to this address of this process; takes little more than a second."""
        siblings, resources, subscriptions = await asyncio.gather(
            self.siblings.fetch_all(host, port), self._summaries.read(), self._read_subscriptions()
        )
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
            *subscription_notices(subscriptions, now),
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
            limits=merged.limits,
            nodes=merged.nodes,
            running=merged.running,
            consumers=consumers[:_MAX_ROWS],
            subscriptions=sorted(subscriptions.summaries, key=lambda row: -(row.behind or 0))[:_MAX_ROWS],
            keys=self._key_rows(merged)[:_MAX_ROWS],
        )

    async def _read_subscriptions(self) -> KnownSubscriptions:
        """Return the subscriptions as last read, none if they are left out or could not be read."""
        subscriptions = self._services.find(Subscriptions)
        if subscriptions is not None:
            await refresh_all([subscriptions])
        return (subscriptions and subscriptions.current) or KnownSubscriptions([], 0.0)

    def _consumer_rows(self, merged: WorkerSnapshot, resources: list[ResourceSummary], now: float) -> list[ConsumerRow]:
        marks = {summary.resource: summary.mark for summary in resources}
        rows = [
            ConsumerRow(feed, self._name(feed.key_id), feed.trouble(now), _seconds_behind(feed, marks))
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
        return key.tier if key is not None and key.tier in self._services.limits.rates.tiers else ""


def _seconds_behind(feed: FeedConsumer, marks: dict[str, float | None]) -> float | None:
    """Return whole seconds, like watermarks; None before all was read once."""
    read = [mark for name in feed.resource.split(", ") if (mark := marks.get(name)) is not None]
    return None if not read or feed.caught is None else max(0.0, int(max(read)) - feed.caught)


CONSOLE_ROOT = "/console"
OVERVIEW_PATH = f"{CONSOLE_ROOT}/data.json"
OPERATOR_CONSOLE = web.AppKey("console", OperatorConsole)

_ASSETS = resources.files("service.console").joinpath("assets")
_CHART_LIBRARY = resources.files("service.console").joinpath("uplot")
# Shares the style of the documentation.
_SITE_ASSETS = resources.files("service").joinpath("site", "assets")
_FILES: dict[str, tuple[Traversable, str]] = {
    CONSOLE_ROOT: (_ASSETS.joinpath("console.html"), "text/html"),
    f"{CONSOLE_ROOT}/": (_ASSETS.joinpath("console.html"), "text/html"),
    f"{CONSOLE_ROOT}/console.css": (_ASSETS.joinpath("console.css"), "text/css"),
    f"{CONSOLE_ROOT}/console.js": (_ASSETS.joinpath("console.js"), "text/javascript"),
    f"{CONSOLE_ROOT}/charts.js": (_ASSETS.joinpath("charts.js"), "text/javascript"),
    f"{CONSOLE_ROOT}/uplot.js": (_CHART_LIBRARY.joinpath("uPlot.iife.min.js"), "text/javascript"),
    f"{CONSOLE_ROOT}/uplot.css": (_CHART_LIBRARY.joinpath("uPlot.min.css"), "text/css"),
    f"{CONSOLE_ROOT}/site.css": (_SITE_ASSETS.joinpath("site.css"), "text/css"),
    f"{CONSOLE_ROOT}/icon.svg": (_SITE_ASSETS.joinpath("icon.svg"), "image/svg+xml"),
}


def add_console(service: web.Application, app: web.Application, clock: Callable[[], float] = time.time) -> None:
    """Add the console of a service that has been set up to the application of the private port.

    `clock` returns seconds since 1970.
    """
    console = app[OPERATOR_CONSOLE] = OperatorConsole(service[SERVICES], service[HEALTH_MONITOR], clock)
    app.cleanup_ctx.extend((console.history.lifespan, console.siblings.lifespan))
    # The documentation for operators is of the site.
    others = {"site"}.difference(service[SERVICES].settings.without)
    for path, (file, content_type) in _FILES.items():
        body = file.read_bytes()
        if file.name == "console.html":
            body = text_with(others, body.decode()).encode()
        app.router.add_get(path, _file_handler(body, content_type))
    app.router.add_get(OVERVIEW_PATH, _overview)
    app.router.add_get(WORKER_SNAPSHOT_PATH, _worker_snapshot)


def _file_handler(body: bytes, content_type: str) -> Handler:
    headers = {"Content-Type": f"{content_type}; charset=utf-8", "Content-Security-Policy": CONTENT_POLICY}

    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=body, headers=headers)

    return handle


async def _overview(request: web.Request) -> web.Response:
    host, port = _address(request)
    return _json(await request.app[OPERATOR_CONSOLE].fetch_overview(host, port))


async def _worker_snapshot(request: web.Request) -> web.Response:
    return _json(request.app[OPERATOR_CONSOLE].snapshot())


def _address(request: web.Request) -> tuple[str, int]:
    if request.transport is None:
        raise ConnectionResetError
    host, port, *_ = request.transport.get_extra_info("sockname")
    return host, port


def _json(body: msgspec.Struct) -> web.Response:
    # Masked, because a client may have sent a key as a cursor.
    return web.Response(text=mask_keys(msgspec.json.encode(body).decode()), content_type="application/json")
