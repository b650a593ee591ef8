"""What records were at which time, while a source changes: the truth of the soak."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos.judge import Judge
from tests.chaos.truth import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.chaos.judge import Page, Walked
    from tests.chaos.truth import Record, Walk
    from tests.contract.world import Envelope

# What was read ahead is up to a second old, and a request may have waited for a search that began before it.
_LINGERS_SECONDS = 5.0


@dataclass
class Span:
    """A state of one record, from when it may first be seen until it can no longer be seen; None: it is deleted."""

    envelope: Envelope | None
    begins: float
    ends: float = float("inf")
    _forms: dict[tuple[bool, bool], Record] = field(default_factory=dict)

    def shown(self, walk: Walk) -> Record:
        """Return the state as a walk shows it; made once."""
        form = (walk.underscored, walk.brief)
        if form not in self._forms and self.envelope is not None:
            self._forms[form] = shown(walk, self.envelope)
        return self._forms[form]


@dataclass
class History:
    """The states of all records of one resource."""

    spans: dict[str, list[Span]] = field(default_factory=dict)

    @classmethod
    def of(cls, envelopes: Iterable[Envelope]) -> History:
        """Begin with records that have been there for ever."""
        return cls({str(one["record"]["PlatformListingId"]): [Span(one, float("-inf"))] for one in envelopes})

    def current(self) -> list[Envelope]:
        """Return the records that there are now."""
        last = (spans[-1].envelope for spans in self.spans.values())
        return [envelope for envelope in last if envelope is not None]

    def change(self, changes: dict[str, Envelope | None]) -> None:
        """Take note of changes that are about to be made; until they are `settled` the former states may be seen."""
        now = time.monotonic()
        for name, envelope in changes.items():
            self.spans.setdefault(name, [Span(None, float("-inf"))]).append(Span(envelope, now))

    def settled(self, names: Iterable[str]) -> None:
        """Take note that changes have been made: the former states are seen for a moment only."""
        ends = time.monotonic() + _LINGERS_SECONDS
        for name in names:
            for span in self.spans[name][:-1]:
                span.ends = min(span.ends, ends)

    def seen(self, name: str, begins: float, ends: float) -> list[Span]:
        """Return the states that a record can have been seen in within a time."""
        return [span for span in self.spans.get(name, []) if span.begins <= ends and begins <= span.ends]


@dataclass
class ChangingJudge(Judge):
    """Judges what holds however much changes meanwhile."""

    histories: dict[str, History] = field(default_factory=dict)  # by resource

    def page(self, walk: Walk, after: str | None, page: Page) -> None:
        """Judge one page: rising, behind the cursor, full unless it is the last, and each record as it once was."""
        faults = [] if _rises([after or "", *page.ids]) else ["the order is wrong, or a record is repeated"]
        if (not page.final and len(page.ids) != walk.page_size) or len(page.ids) > walk.page_size:
            faults.append(f"it has {len(page.ids)} records of {walk.page_size} and FinalPage {page.final}")
        now = time.monotonic()
        for name, record in zip(page.ids, page.records, strict=True):
            spans = self.histories[walk.resource].seen(name, page.asked_at, now)
            if _comparable(walk, record) not in [_comparable(walk, one) for one in self._shown(walk, spans)]:
                faults.append(f"{name} is as it never was in this time, or does not belong here")
        if faults:
            self.find(f"{walk} behind {after}: {'; '.join(faults)}")

    def whole(self, walk: Walk, walked: Walked) -> None:
        """Judge a walk: what matched all along and never changed is there once."""
        history, now = self.histories[walk.resource], time.monotonic()
        steady = {name for name in history.spans if self._is_steady(walk, history.seen(name, walked.began, now))}
        if not _rises(walked.ids):
            self.find(f"{walk} as a whole: the order is wrong, or a record is repeated")
        if missing := steady - set(walked.ids):
            self.find(f"{walk} as a whole: {len(missing)} records are missing, such as {min(missing)}")

    def _is_steady(self, walk: Walk, spans: list[Span]) -> bool:
        [truth] = self.truths
        envelope = spans[0].envelope if len(spans) == 1 else None
        return envelope is not None and truth.matches(walk, envelope)

    def _shown(self, walk: Walk, spans: list[Span]) -> list[Record]:
        """Return the forms in which states are shown by a walk that matches them."""
        [truth] = self.truths
        return [span.shown(walk) for span in spans if span.envelope is not None and truth.matches(walk, span.envelope)]


def _comparable(walk: Walk, record: Record) -> Record:
    """Return a record without the clock of the indexer."""
    return {name: value for name, value in record.items() if not (walk.brief and name == "last_updated")}


def _rises(ids: list[str]) -> bool:
    return all(earlier < later for earlier, later in pairwise(ids))
