"""Whether all is well: sentences about what is not, the worst first. The bounds are those of the alerts."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from mappings import LISTING, SOLD_LISTING
from service.soundness import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from service.console.figures import Figures
    from service.console.resources import Held
    from service.soundness import Finding
    from service.telemetry.consumers import Consumer

FAILED_SHARE = 0.01
SLOW_SECONDS = 1.0
LATE_SECONDS = 0.1
OLD_SECONDS = 24 * 3600
# Partners poll these; the others change when somebody moves.
_CHANGES_DAILY = {LISTING.alias, SOLD_LISTING.alias}


class Level(StrEnum):
    """How bad it is, as `brokerage doctor` tells it."""

    WRONG = "wrong"
    WARNING = "warning"
    WELL = "well"


_LEVELS = {State.WRONG: Level.WRONG, State.WARNING: Level.WARNING, State.UNKNOWN: Level.WARNING}


class Notice(msgspec.Struct):
    """One thing that is not well, and what mends it where that is known."""

    level: Level
    text: str
    remedy: str = ""


class Reader(msgspec.Struct):
    """A consumer, what is wrong with it, and by how many seconds what it has read whole is behind the index."""

    seen: Consumer
    name: str
    trouble: str
    behind: float | None


def of_findings(findings: Iterable[Finding]) -> Iterator[Notice]:
    """Yield what the service's own checks of Elasticsearch found."""
    for finding in findings:
        if (level := _LEVELS.get(finding.state)) is not None:
            text = f"{finding.subject}: {finding.problem}. {finding.detail}".strip()
            yield Notice(level, text, finding.remedy)


def of_resources(resources: Iterable[Held], now: float) -> Iterator[Notice]:
    """Yield the resources that should change every day and did not, and the builds that were refused."""
    for held in resources:
        if held.resource in _CHANGES_DAILY and held.mark is not None and now - held.mark > OLD_SECONDS:
            hours = int((now - held.mark) // 3600)
            text = f"{held.resource}: nothing was published for {hours} hours."
            yield Notice(Level.WARNING, text, "`brokerage index status` tells the last run and what is unfinished.")
        if held.build is not None and held.build.refusal is not None:
            text = f"{held.resource}: {held.build.candidate} was built and refused. {held.build.refusal}"
            yield Notice(
                Level.WARNING, text, f"Mend the source, then `brokerage index reindex SOURCE {held.resource}`."
            )


def of_figures(figures: Figures) -> Iterator[Notice]:
    """Yield what partners feel: failures, slowness, a process that is held up."""
    minute = figures.minute
    if minute.failed > FAILED_SHARE * minute.requests:
        text = f"{minute.failed} of the {minute.requests} requests of the last minute failed."
        yield Notice(Level.WRONG, text, "The log names the causes.")
    for route in figures.routes:
        if route.slowest is not None and route.slowest > SLOW_SECONDS:
            text = f"{route.name}: one of a hundred answers takes longer than {route.slowest:.1f} s."
            yield Notice(Level.WARNING, text, "`brokerage_layer_seconds` tells which layer grew.")
    if figures.loop_late is not None and figures.loop_late > LATE_SECONDS:
        text = f"The event loop is held up for {figures.loop_late * 1000:.0f} ms one time in a hundred."
        yield Notice(Level.WARNING, text, "Something takes the processor, or there are too few cores for the workers.")


def of_consumers(readers: Iterable[Reader]) -> Iterator[Notice]:
    """Yield the consumers that are stuck."""
    for reader in readers:
        if reader.trouble:
            text = f"{reader.name or reader.seen.key_id} {reader.trouble} of {reader.seen.resource}."
            yield Notice(Level.WARNING, text, "Tell its owner; the table of consumers has the cursor.")


def of_neighbours(nodes: dict[str, int], away: Sequence[int]) -> Iterator[Notice]:
    """Yield nodes of Elasticsearch and workers of this host that do not answer."""
    for state in ("failed", "silent"):
        if nodes[state]:
            yield Notice(Level.WARNING, f"Elasticsearch: {nodes[state]} of {sum(nodes.values())} nodes {_IS[state]}.")
    for port in away:
        text = f"The worker with the metrics port {port} does not answer: its figures are missing here."
        yield Notice(Level.WARNING, text, "The log says when a worker ended and was replaced.")


_IS = {"failed": "failed lately", "silent": "do not answer"}


def headline(notices: Sequence[Notice]) -> tuple[Level, str]:
    """Return how it is as a whole, and that in one sentence."""
    if not notices:
        return Level.WELL, "All is well."
    worst = Level.WRONG if any(notice.level is Level.WRONG for notice in notices) else Level.WARNING
    count = sum(notice.level is worst for notice in notices)
    if worst is Level.WRONG:
        return worst, "One thing is wrong." if count == 1 else f"{count} things are wrong."
    return worst, "One thing needs a look." if count == 1 else f"{count} things need a look."
