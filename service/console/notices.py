"""Notices about problems, and the headline. The thresholds are those of the alerts."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

from cluster.index_wear import wear_sentence
from mappings import LISTING, SOLD_LISTING
from service.console.figures import Figures
from service.console.resource_summaries import ResourceSummary
from service.health.checks import Finding, FindingState
from service.telemetry.feed_consumers import FeedConsumer

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
    """A problem, and how to fix it if that is known."""

    level: NoticeLevel
    text: str
    remedy: str = ""


class ConsumerRow(msgspec.Struct):
    """A consumer, its problem, and the seconds by which its last complete walk is behind the watermark."""

    seen: FeedConsumer
    name: str
    trouble: str
    behind: float | None


def finding_notices(findings: Iterable[Finding]) -> Iterator[Notice]:
    """Yield the problems found by the health checks of Elasticsearch."""
    for finding in findings:
        if (level := _LEVELS.get(finding.state)) is not None:
            text = f"{finding.subject}: {finding.problem}. {finding.detail}".strip()
            yield Notice(level, text, finding.remedy)


def resource_notices(resources: Iterable[ResourceSummary], now: float) -> Iterator[Notice]:
    """Yield resources without updates that should change every day, refused builds, and indices to compact."""
    for summary in resources:
        name, mark, build = summary.resource, summary.mark, summary.build
        if name in _DAILY_RESOURCES and mark is not None and now - mark > MAX_MARK_AGE_SECONDS:
            text = f"{name}: no changes published for {int((now - mark) // 3600)} hours."
            yield Notice(NoticeLevel.WARNING, text, "See the last run and unfinished ones: `brokerage index status`.")
        if build is not None and build.refusal is not None:
            text = f"{name}: the build of {build.candidate} was refused. {build.refusal}"
            remedy = f"Fix the source, then run `brokerage index reindex SOURCE {name}`."
            yield Notice(NoticeLevel.WARNING, text, remedy)
        if summary.wear is not None and summary.wear.is_worn:
            text = f"{name}: {wear_sentence(summary.wear)}"
            yield Notice(NoticeLevel.WARNING, text, f"Merge them: `brokerage index compact {name}`.")


def traffic_notices(figures: Figures) -> Iterator[Notice]:
    """Yield failed requests, slow routes and event loop lag."""
    minute = figures.minute
    if minute.failed > MAX_FAILED_SHARE * minute.requests:
        text = f"{minute.failed} of {minute.requests} requests in the last minute failed."
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
    """Yield the consumers that are stuck."""
    for consumer in consumers:
        if consumer.trouble:
            text = f"{consumer.name or consumer.seen.key_id} ({consumer.seen.resource}) {consumer.trouble}."
            yield Notice(NoticeLevel.WARNING, text, "Contact its owner; the table of consumers shows the cursor.")


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
    """Return the highest level, and a one-sentence summary."""
    if not notices:
        return NoticeLevel.WELL, "All is well."
    worst = NoticeLevel.WRONG if any(notice.level is NoticeLevel.WRONG for notice in notices) else NoticeLevel.WARNING
    count = sum(notice.level is worst for notice in notices)
    if worst is NoticeLevel.WRONG:
        return worst, "1 problem." if count == 1 else f"{count} problems."
    return worst, "1 warning." if count == 1 else f"{count} warnings."
