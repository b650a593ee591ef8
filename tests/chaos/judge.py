"""The judge: knows what is true and looks at every page; one wrong page is what the whole suite is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.truth import Expected, Record, Truth, Walk

_SHOWN = 20  # findings that are kept word for word


@dataclass(frozen=True)
class Page:
    """An answer of 200, taken apart."""

    records: list[Record]
    ids: list[str]
    final: bool
    asked_at: float  # by `time.monotonic`

    @classmethod
    def of(cls, walk: Walk, body: bytes, asked_at: float = 0.0) -> Page:
        """Read a body; raise ValueError, KeyError or TypeError for what is no page."""
        answer: dict[str, Any] = orjson.loads(body)
        records: list[Record] = answer[walk.name("Listings")]
        name, final = walk.name("PlatformListingId"), answer[walk.name("FinalPage")]
        if not isinstance(final, bool) or len(answer) != 2:
            raise ValueError(f"it has the members {sorted(answer)} and says {final!r}")
        return cls(records, [str(record[name]) for record in records], final, asked_at)


@dataclass
class Walked:
    """A walk under way: the identifiers so far, and when it began."""

    began: float  # by `time.monotonic`
    ids: list[str] = field(default_factory=list)


@dataclass
class Judge:
    """Compares pages with the truth, of which there may be several at a time: a page must be of exactly one."""

    truths: Sequence[Truth]
    wrong: int = 0  # answers and walks that told something untrue
    findings: list[str] = field(default_factory=list)  # the first of them in words

    def page(self, walk: Walk, after: str | None, page: Page) -> None:
        """Judge one page behind a cursor."""
        found = [_faults(truth.expected(walk), walk.page_size, after, page) for truth in self.truths]
        if all(found):
            self.find(f"{walk} behind {after}: {'; '.join(found[0])}")

    def unreadable(self, walk: Walk, after: str | None, error: Exception) -> None:
        """Judge a body of 200 that is no page."""
        self.find(f"{walk} behind {after}: it is no page, {error!r}")

    def whole(self, walk: Walk, walked: Walked) -> None:
        """Judge all identifiers of a walk that has come to its end.

        Where there are several truths it may have met each of them: it must have all that is in every one, and nothing
        that is in none.
        """
        sets = [set(truth.expected(walk).ids) for truth in self.truths]
        always, ever = set.intersection(*sets), set.union(*sets)
        faults = differences(sorted(always | (set(walked.ids) & ever)), walked.ids)
        if faults:
            self.find(f"{walk} as a whole: {'; '.join(faults)}")

    def find(self, what: str) -> None:
        """Count something wrong."""
        self.wrong += 1
        if len(self.findings) < _SHOWN:
            self.findings.append(what)


def _faults(expected: Expected, size: int, after: str | None, page: Page) -> list[str]:
    """Return what is wrong with a page, in words."""
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
    """Return how identifiers differ from those expected, in words."""
    if ids == expected:
        return []
    missing, foreign = set(expected) - set(ids), set(ids) - set(expected)
    faults = [f"{len(missing)} records are missing, such as {min(missing)}"] if missing else []
    faults += [f"{len(foreign)} records do not belong here, such as {min(foreign)}"] if foreign else []
    faults += [f"{len(ids) - len(set(ids))} records are repeated"] if len(ids) > len(set(ids)) else []
    return faults + (["the order is wrong"] if ids != sorted(ids) else [])
