"""What a feed must return, and the oracle that compares every page with it. A single wrong page fails a scenario."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, cycle, islice, zip_longest
from pathlib import Path
from typing import Any

import orjson

from mappings.fields import underscore
from tests.contract.world import PARENT, Envelope, read_source, unix_time

Record = dict[str, Any]

_SHOWN = 20  # findings that are kept word for word
_SIZES = (7, 20, 50, 3, 200)
_ON_MARKET = frozenset({"Active", "Pending", "Contingent"})


@dataclass(frozen=True, kw_only=True)
class FeedWalkSpec:
    """One walk of a feed. `company` is a company's key; without it and `parent`, all companies are walked."""

    path: str = "/listings"
    page_size: int = 20
    company: str | None = None
    parent: str | None = None
    market_status: str | None = None  # None: the feed has no such parameter
    underscored: bool = False
    brief: bool = False  # `timestamps_only`

    @property
    def resource(self) -> str:
        return self.path.removeprefix("/")

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of every page, without the cursor."""
        sent = {"platform_company_id": self.company, "parent_company_id": self.parent}
        sent |= {"market_status": self.market_status, "page_size": str(self.page_size), "updated_since": "1"}
        sent |= {"underscore_response": "true"} if self.underscored else {}
        sent |= {"timestamps_only": "true"} if self.brief else {}
        return {name: value for name, value in sent.items() if value is not None}

    def name(self, of: str) -> str:
        return underscore(of) if self.underscored else of


@dataclass(frozen=True)
class ExpectedWalk:
    """Everything that a walk must return, in order."""

    ids: list[str]
    records: dict[str, Record]

    def behind(self, after: str | None, count: int) -> list[str]:
        """Return the identifiers of up to `count` records after a cursor."""
        begins = bisect_right(self.ids, after) if after is not None else 0
        return self.ids[begins : begins + count]


@dataclass(frozen=True)
class ExpectedFeeds:
    """The records of a source folder by resource."""

    source: Mapping[str, list[Envelope]]
    _expected: dict[FeedWalkSpec, ExpectedWalk] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> ExpectedFeeds:
        return cls({path.stem: read_source(path) for path in folder.glob("*.ndjson")})

    def expected(self, walk: FeedWalkSpec) -> ExpectedWalk:
        """Return what a walk must return; computed once."""
        if walk not in self._expected:
            matching = [envelope for envelope in self.source[walk.resource] if self.matches(walk, envelope)]
            found = {str(envelope["record"]["PlatformListingId"]): shown(walk, envelope) for envelope in matching}
            self._expected[walk] = ExpectedWalk(sorted(found), found)
        return self._expected[walk]

    def matches(self, walk: FeedWalkSpec, envelope: Envelope) -> bool:
        """Whether a walk must return a record."""
        company = envelope["platform_company_id"]
        if walk.company is not None and company != walk.company:
            return False
        if walk.parent is not None and company not in self.children(walk.parent):
            return False
        return walk.market_status in {None, "all"} or envelope["record"]["Status"] in _ON_MARKET

    def companies(self) -> list[str]:
        return [str(envelope["record"]["platform_company_id"]) for envelope in self.source["companies"]]

    def children(self, parent: str) -> set[str]:
        """Return the keys of the companies under a parent."""
        under = [envelope for envelope in self.source["companies"] if envelope.get("parent_company_id") == parent]
        return {str(envelope["record"]["platform_company_id"]) for envelope in under}


def shown(walk: FeedWalkSpec, envelope: Envelope) -> Record:
    """Return a record as a walk returns it."""
    record: Record = envelope["record"]
    if walk.brief:
        record = {
            "PlatformListingId": record["PlatformListingId"],
            "ListingID": record["ListingID"],
            "last_updated": int(unix_time(envelope["updated_at"])),
            "modification_timestamp": record["ModificationTimestamp"],
        }
    respelt: Record = _underscored(record) if walk.underscored else record
    return respelt


def _underscored(value: Any) -> Any:
    if isinstance(value, dict):
        return {underscore(name): _underscored(inner) for name, inner in value.items()}
    return [_underscored(inner) for inner in value] if isinstance(value, list) else value


def mixed_walks(truth: ExpectedFeeds, count: int) -> list[FeedWalkSpec]:
    """Return this number of walks; the first eleven cover every feed, shape and kind of scope."""
    listings = [
        FeedWalkSpec(company=company, market_status=("all", "all", "on-market")[number % 3], page_size=size)
        for number, (company, size) in enumerate(zip(truth.companies(), cycle(_SIZES), strict=False))
    ]
    large, *_ = sorted(listings, key=lambda walk: -len(truth.expected(walk).ids))
    special = [
        replace(large, market_status="all", underscored=True, page_size=50),
        replace(large, market_status="all", brief=True, page_size=100),
        FeedWalkSpec(path="/sold_listings", page_size=50),
        FeedWalkSpec(path="/sold_listings", parent=PARENT, page_size=7),
        FeedWalkSpec(path="/sold_listings", parent=PARENT, brief=True, underscored=True, page_size=20),
        FeedWalkSpec(path="/sold_listings", company=large.company, underscored=True, page_size=20),
    ]
    mixed = [walk for walk in chain(*zip_longest(listings, special)) if walk is not None]
    return list(islice(cycle(mixed), count))


@dataclass(frozen=True)
class ReceivedPage:
    """A parsed 200 response."""

    records: list[Record]
    ids: list[str]
    final: bool
    asked_at: float  # by `time.monotonic`

    @classmethod
    def of(cls, walk: FeedWalkSpec, body: bytes, asked_at: float = 0.0) -> ReceivedPage:
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
        self.wrong += 1
        if len(self.findings) < _SHOWN:
            self.findings.append(what)


def _faults(expected: ExpectedWalk, size: int, after: str | None, page: ReceivedPage) -> list[str]:
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
    if ids == expected:
        return []
    missing, foreign = set(expected) - set(ids), set(ids) - set(expected)
    faults = [f"{len(missing)} records are missing, such as {min(missing)}"] if missing else []
    faults += [f"{len(foreign)} records do not belong here, such as {min(foreign)}"] if foreign else []
    faults += [f"{len(ids) - len(set(ids))} records are repeated"] if len(ids) > len(set(ids)) else []
    return faults + (["the order is wrong"] if ids != sorted(ids) else [])
