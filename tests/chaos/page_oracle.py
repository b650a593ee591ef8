"""The page oracle: compares every page with the source. A single wrong page fails the suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.chaos.expected_pages import ExpectedFeeds, ExpectedWalk, FeedWalkSpec, Record

_SHOWN = 20  # findings that are kept word for word


@dataclass(frozen=True)
class ReceivedPage:
    """A parsed 200 response."""

    records: list[Record]
    ids: list[str]
    final: bool
    asked_at: float  # by `time.monotonic`

    @classmethod
    def of(cls, walk: FeedWalkSpec, body: bytes, asked_at: float = 0.0) -> ReceivedPage:
        """Parse a body; raise ValueError, KeyError or TypeError if it is not a page."""
        answer: dict[str, Any] = orjson.loads(body)
        records: list[Record] = answer[walk.name("Listings")]
        name, final = walk.name("PlatformListingId"), answer[walk.name("FinalPage")]
        if not isinstance(final, bool) or len(answer) != 2:
            raise ValueError(f"it has the members {sorted(answer)} and says {final!r}")
        return cls(records, [str(record[name]) for record in records], final, asked_at)


@dataclass
class WalkProgress:
    """An open walk: its identifiers so far, and when it started."""

    began: float  # by `time.monotonic`
    ids: list[str] = field(default_factory=list)


@dataclass
class PageOracle:
    """Compares pages with the valid versions, of which there may be several: a page must match exactly one."""

    truths: Sequence[ExpectedFeeds]
    wrong: int = 0  # incorrect responses and walks
    findings: list[str] = field(default_factory=list)  # the first of them in words

    def page(self, walk: FeedWalkSpec, after: str | None, page: ReceivedPage) -> None:
        """Check one page after a cursor."""
        found = [_faults(truth.expected(walk), walk.page_size, after, page) for truth in self.truths]
        if all(found):
            self.find(f"{walk} behind {after}: {'; '.join(found[0])}")

    def unreadable(self, walk: FeedWalkSpec, after: str | None, error: Exception) -> None:
        """Record a 200 response that is not a page."""
        self.find(f"{walk} after {after}: it is not a page, {error!r}")

    def whole(self, walk: FeedWalkSpec, walked: WalkProgress) -> None:
        """Check all identifiers of a completed walk.

        Where there are several truths it may have met each of them: it must have all that is in every one, and nothing
        that is in none.
        """
        sets = [set(truth.expected(walk).ids) for truth in self.truths]
        always, ever = set.intersection(*sets), set.union(*sets)
        faults = differences(sorted(always | (set(walked.ids) & ever)), walked.ids)
        if faults:
            self.find(f"{walk} as a whole: {'; '.join(faults)}")

    def find(self, what: str) -> None:
        """Count a deviation."""
        self.wrong += 1
        if len(self.findings) < _SHOWN:
            self.findings.append(what)


def _faults(expected: ExpectedWalk, size: int, after: str | None, page: ReceivedPage) -> list[str]:
    """Return the deviations of a page as text."""
    following = expected.behind(after, size + 1)
    faults = differences(following[:size], page.ids)
    if page.final != (len(following) <= size):
        faults.append(f"FinalPage is {page.final} and {len(following)} of {size} and one more follow")
    faults += [
        f"{name} has other contents"
        for name, record in zip(page.ids, page.records, strict=True)
        if name in expected.records and record != expected.records[name]
    ]
    return faults


def differences(expected: list[str], ids: list[str]) -> list[str]:
    """Return the difference from the expected identifiers as text."""
    if ids == expected:
        return []
    missing, foreign = set(expected) - set(ids), set(ids) - set(expected)
    faults = [f"{len(missing)} records are missing, such as {min(missing)}"] if missing else []
    faults += [f"{len(foreign)} records do not belong here, such as {min(foreign)}"] if foreign else []
    faults += [f"{len(ids) - len(set(ids))} records are repeated"] if len(ids) > len(set(ids)) else []
    return faults + (["the order is wrong"] if ids != sorted(ids) else [])
