"""Expected responses: the records of a source folder, in the shape and order of a walk."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mappings.fields import underscore
from tests.contract.world import Envelope, read_source, unix_time

Record = dict[str, Any]


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
        """The alias of the resource that is walked."""
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
        """Return the name of a member in the response."""
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
        """Read a source folder as `brokerage sample` writes it."""
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
        """Return the keys of all companies."""
        return [str(envelope["record"]["platform_company_id"]) for envelope in self.source["companies"]]

    def children(self, parent: str) -> set[str]:
        """Return the keys of the companies under a parent."""
        under = [envelope for envelope in self.source["companies"] if envelope.get("parent_company_id") == parent]
        return {str(envelope["record"]["platform_company_id"]) for envelope in under}


_ON_MARKET = frozenset({"Active", "Pending", "Contingent"})


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
