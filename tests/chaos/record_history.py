"""The history of records while a source changes: the reference of the soak."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from tests.chaos.expected_pages import FeedWalkSpec, Record, shown
from tests.chaos.page_oracle import PageOracle, ReceivedPage, WalkProgress
from tests.contract.world import Envelope

# A request may share a search that began up to a second before it, and wait for it.
_LINGERS_SECONDS = 5.0


@dataclass
class VisibleState:
    """A state of one record, and when it may be visible; None means deleted."""

    envelope: Envelope | None
    begins: float
    ends: float = float("inf")
    _forms: dict[tuple[bool, bool], Record] = field(default_factory=dict)

    def shown(self, walk: FeedWalkSpec) -> Record:
        """Return the state as a walk returns it; computed once."""
        form = (walk.underscored, walk.brief)
        if form not in self._forms and self.envelope is not None:
            self._forms[form] = shown(walk, self.envelope)
        return self._forms[form]


@dataclass
class RecordHistory:
    """The states of all records of one resource."""

    spans: dict[str, list[VisibleState]] = field(default_factory=dict)

    @classmethod
    def of(cls, envelopes: Iterable[Envelope]) -> RecordHistory:
        """Start with records without an earlier history."""
        return cls({str(one["record"]["PlatformListingId"]): [VisibleState(one, float("-inf"))] for one in envelopes})

    def current(self) -> list[Envelope]:
        """Return the current records."""
        last = (spans[-1].envelope for spans in self.spans.values())
        return [envelope for envelope in last if envelope is not None]

    def change(self, changes: dict[str, Envelope | None]) -> None:
        """Record upcoming changes; until they are `settled`, the former states may be visible."""
        now = time.monotonic()
        for name, envelope in changes.items():
            self.spans.setdefault(name, [VisibleState(None, float("-inf"))]).append(VisibleState(envelope, now))

    def settled(self, names: Iterable[str]) -> None:
        """Record that changes were made: the former states are visible for a moment only."""
        ends = time.monotonic() + _LINGERS_SECONDS
        for name in names:
            for span in self.spans[name][:-1]:
                span.ends = min(span.ends, ends)

    def seen(self, name: str, begins: float, ends: float) -> list[VisibleState]:
        """Return the states in which a record may have been visible within a period."""
        return [span for span in self.spans.get(name, []) if span.begins <= ends and begins <= span.ends]


@dataclass
class ChangingOracle(PageOracle):
    """Checks the invariants that hold during changes."""

    histories: dict[str, RecordHistory] = field(default_factory=dict)  # by resource

    def page(self, walk: FeedWalkSpec, after: str | None, page: ReceivedPage) -> None:
        """Check a page: ascending, after the cursor, full unless it is the last, each record in a valid state."""
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

    def whole(self, walk: FeedWalkSpec, walked: WalkProgress) -> None:
        """Check a walk: unchanged records that matched throughout are present once."""
        history, now = self.histories[walk.resource], time.monotonic()
        steady = {name for name in history.spans if self._is_steady(walk, history.seen(name, walked.began, now))}
        if not _rises(walked.ids):
            self.find(f"{walk} as a whole: the order is wrong, or a record is repeated")
        if missing := steady - set(walked.ids):
            self.find(f"{walk} as a whole: {len(missing)} records are missing, such as {min(missing)}")

    def _is_steady(self, walk: FeedWalkSpec, spans: list[VisibleState]) -> bool:
        [truth] = self.truths
        envelope = spans[0].envelope if len(spans) == 1 else None
        return envelope is not None and truth.matches(walk, envelope)

    def _shown(self, walk: FeedWalkSpec, spans: list[VisibleState]) -> list[Record]:
        """Return the shapes of the states that match a walk."""
        [truth] = self.truths
        return [span.shown(walk) for span in spans if span.envelope is not None and truth.matches(walk, span.envelope)]


def _comparable(walk: FeedWalkSpec, record: Record) -> Record:
    """Return a record without the clock of the indexer."""
    return {name: value for name, value in record.items() if not (walk.brief and name == "last_updated")}


def _rises(ids: list[str]) -> bool:
    return all(earlier < later for earlier, later in pairwise(ids))
