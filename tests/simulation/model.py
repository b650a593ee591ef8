"""What is true of records whose changes, rebuilds and rollbacks a machine chooses, computed without the indexer.

A state is that of `tests.indexer.expected_state`; its name contains all that a partner sees: the company, the status,
and the last change. Returned records have it as their `ListingID`, in every shape.
"""

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mappings import COMPANY, LISTING, SOLD_LISTING, Resource
from mappings.listing import ON_MARKET_STATUSES
from service.keys.store import KeyGrant
from tests.indexer.expected_state import BEGIN, ExpectedState, TeamState
from tests.records import deletion, envelope

PARENT = "parent-co"
CHILDREN = ("child-a", "child-b")
LONE = "lone"
STATUSES = ("Active", "Pending", "Sold", "Expired", "ComingSoon")
NUMBERS = {PARENT: "1", CHILDREN[0]: "2", CHILDREN[1]: "3", LONE: "4"}
GRANTS = {
    "all": KeyGrant("all", all_companies=True, rate=None),
    "child": KeyGrant("child", companies=(CHILDREN[0],), rate=None),
    "parent": KeyGrant("parent", parent_companies=(PARENT,), rate=None),
    "two": KeyGrant("two", companies=(CHILDREN[0], LONE), rate=None),
}
MOMENTS = 1_000  # seconds between two changes at the source, so that there is room for late ones
# Of states of one moment a deletion is the last; a record that a full source lacked is restored by any of them.
_RANKS = {"vanished": 0, None: 1, "deleted": 2}
_MARKETS = {
    "all": frozenset(STATUSES),
    "on-market": frozenset(ON_MARKET_STATUSES),
    "off-market": frozenset(STATUSES) - {*ON_MARKET_STATUSES, "ComingSoon"},
}


def company_lines() -> list[dict[str, Any]]:
    return [
        envelope(
            COMPANY,
            {"platform_company_id": name, "numeric_id": number},
            **({"parent_company_id": PARENT} if name in CHILDREN else {}),
        )
        for name, number in NUMBERS.items()
    ]


class RecordForm(NamedTuple):
    company: str
    status: str

    def name(self, change: int) -> str:
        return f"{self.company} {self.status} {change}"


FORMS = [RecordForm(company, status) for company in NUMBERS for status in STATUSES]
Change = RecordForm | str  # a new state, or one of the others
# Other states of a record.
OTHERS = ("deletion", "late", "late deletion", "overtaken", "touch", "back")
# Endings of identifiers: common prefixes, and characters with a special meaning.
ENDS = ("0", "00", "9", "A", "B", "a", "a-1", "a1", "a10", "a2", "b", "b:c", "b;c", "c%2F", "c+d", "m,n", 'q"',
        "z", "zz", "~", "é", "漢", "😀")  # fmt: skip


class WorkInterval(NamedTuple):
    """When some work started, and the later of its end and the clock that it published; in milliseconds."""

    begin: int
    end: int


def form_of(name: str) -> RecordForm:
    return RecordForm(*name.split(" ")[:2])


def line(resource: Resource, identifier: str, state: TeamState, owner: str) -> dict[str, Any]:
    """Return the envelope that puts a record into a state; a deletion names its last company."""
    moment = (BEGIN + dt.timedelta(seconds=state.moment)).isoformat()
    if state.name is None:
        return deletion(resource, identifier, moment) | {"platform_company_id": owner}
    form = form_of(state.name)
    status = form.status if resource is LISTING else "Sold"
    record = {"PlatformListingId": identifier, "ListingID": state.name, "Status": status}
    return envelope(resource, record, updated_at=moment, platform_company_id=form.company)


def state_of(document: dict[str, Any]) -> TeamState:
    moment = (document["version"] >> 10) // 1_000_000 - int(BEGIN.timestamp())
    name = None if document["deleted"] else document["record"]["ListingID"]
    return TeamState(moment, name, document.get("reason"))


def is_newer(state: TeamState, known: TeamState | None) -> bool:
    return known is None or (state.moment, _RANKS[state.reason]) > (known.moment, _RANKS[known.reason])


States = dict[str, TeamState]


@dataclass
class MachineModel:
    """The live records, those that a rollback would restore, and the result of the current work."""

    model: ExpectedState = field(default_factory=ExpectedState)
    previous: States | None = field(default_factory=dict)
    since_swap: set[str] = field(default_factory=set)  # written since the live generation went live
    after: States | None = None  # the live records once the current work is done
    lows: dict[str, float] = field(default_factory=dict)  # bounds of the clock that `updated_since` compares
    highs: dict[str, float] = field(default_factory=dict)

    def possible(self, identifier: str) -> tuple[TeamState | None, ...]:
        """Return the states in which a record may be visible now."""
        now = self.model.live.get(identifier)
        return (now,) if self.after is None else (now, self.after.get(identifier))

    def clocks(self, identifier: str) -> tuple[float, float]:
        """Return the bounds of a record's clock, in milliseconds."""
        states = self.possible(identifier)
        high = math.inf if len(set(states)) > 1 else self.highs.get(identifier, 0)
        return self.lows.get(identifier, 0), high

    def updated(self, changes: States) -> States:
        """Return the live records after some updates, of which some may be too late."""
        late = {name for name, state in changes.items() if not is_newer(state, self.model.live.get(name))}
        return {**self.model.live, **{name: state for name, state in changes.items() if name not in late}}

    def update(self, changes: States, span: WorkInterval) -> None:
        """Apply updates; those too late for the live generation are kept in the previous one."""
        for name, state in changes.items():
            known = self.model.live.get(name)
            if is_newer(state, known):
                self.model.update(name, state)
                self.since_swap.add(name)
                if (known.name if known else None) != state.name:
                    self._changed(name, span)
            elif self.previous is not None and is_newer(state, self.previous.get(name)):
                self.previous[name] = state

    def rebuilt(self, before: States, source: States, taken_at: int) -> States:
        """Return the live records after a rebuild that started at `before`."""
        copy = ExpectedState(dict(self.model.live), set(self.model.written))
        copy.rebuild(before, source, taken_at)
        return copy.live

    def swap(self, after: States, span: WorkInterval) -> None:
        """Replace the live generation with the candidate."""
        self.previous = dict(self.model.live)
        for name, state in after.items():
            known = self.model.live.get(name)
            if (known.name if known else None) != state.name:
                self._changed(name, span)
            elif name in self.model.written:
                self.highs[name] = span.end
        self.model.live, self.since_swap = after, set()

    def rolled_back(self) -> States:
        """Return the live records after a rollback."""
        after = dict(self.previous or {})
        for name in self.since_swap:
            if is_newer(state := self.model.live[name], after.get(name)):
                after[name] = state
        return after

    def forget_clocks(self) -> None:
        """Forget the clocks: those of restored records keep their former values."""
        self.lows, self.highs = {}, dict.fromkeys({**self.model.live, **(self.previous or {})}, math.inf)

    def roll_back(self, after: States) -> None:
        """Restore the replaced generation."""
        self.forget_clocks()
        self.model.live, self.previous, self.since_swap = after, None, set()

    def _changed(self, name: str, span: WorkInterval) -> None:
        self.lows[name], self.highs[name] = span.begin, span.end


class SourceRecords:
    """The records of one resource as their source tells of them. `known` is what the indexer has of a record."""

    def __init__(self, resource: Resource, known: Callable[[str], TeamState | None]) -> None:
        self.resource, self._known = resource, known
        self.number = 0  # of the change
        self.owner: dict[str, str] = {}
        self._first: dict[str, str] = {}  # the name of each record's first state
        self._told: set[tuple[str, int]] = set()  # the moments of each record that were ever given

    def changed(self, changes: Mapping[str, Change]) -> States:
        self.number += 1
        found = {name: self._state(name, change) for name, change in changes.items()}
        for name, state in found.items():
            if state.name is not None:
                self.owner[name] = form_of(state.name).company
                self._first.setdefault(name, state.name)
        return found

    def lines(self, states: States) -> list[dict[str, Any]]:
        return [line(self.resource, name, state, self.owner.get(name, LONE)) for name, state in states.items()]

    def _state(self, name: str, change: Change) -> TeamState:
        known = self._known(name)
        moment = self._moment(name, known, change)
        if isinstance(change, RecordForm):
            return TeamState(moment, change.name(self.number))
        if change == "back" and name in self._first:
            return TeamState(moment, self._first[name])
        if change == "touch" and known is not None:
            return TeamState(moment, known.name, None if known.name else "deleted")
        if change in {"deletion", "late deletion"}:
            return TeamState(moment, None, "deleted")
        form = form_of(known.name) if known and known.name else RecordForm(LONE, "Active")
        return TeamState(moment, form.name(self.number))

    def _moment(self, name: str, known: TeamState | None, change: Change) -> int:
        """Return the time of a change at the source: late ones are older than the known state."""
        moment = self.number * MOMENTS
        if change in {"late", "late deletion"} and known:
            moment = known.moment - 1
        if change == "overtaken":  # older than the change before this one
            moment -= MOMENTS + 1
        while (name, moment) in self._told:
            moment -= 1
        self._told.add((name, moment))
        return moment


@dataclass(frozen=True)
class FeedQuery:
    """The query of a walk, and the records that match; no `companies` means all."""

    resource: Resource = field(repr=False)
    key: str
    parameters: dict[str, str]
    companies: frozenset[str]
    market: str = "all"

    def matches(self, state: TeamState | None) -> bool:
        if state is None or state.name is None:
            return False
        form = form_of(state.name)
        return form.company in self.companies and form.status in _MARKETS[self.market]

    def names(self, live: States) -> dict[str, str]:
        return {name: str(state.name) for name, state in live.items() if self.matches(state)}

    @property
    def query(self) -> dict[str, str]:
        return self.parameters | ({"market_status": self.market} if self.resource is LISTING else {})

    @property
    def followed(self) -> dict[str, str]:
        return {"market_status": self.market} if self.market != "all" else {}


def _listings(key: str, company: str, **more: str) -> list[FeedQuery]:
    parameters = {"platform_company_id": company, **more}
    of = frozenset(name for name, number in NUMBERS.items() if company in {name, number})
    return [FeedQuery(LISTING, key, parameters, of, market) for market in _MARKETS]


def _sold(key: str, companies: Iterable[str], **parameters: str) -> FeedQuery:
    return FeedQuery(SOLD_LISTING, key, parameters, frozenset(companies))


FEED_QUERIES = {
    LISTING: [
        *_listings("child", CHILDREN[0]),
        *_listings("all", NUMBERS[LONE]),
        *_listings("parent", NUMBERS[CHILDREN[1]], parent_company_id=PARENT),
        *_listings("two", CHILDREN[0]),
    ],
    SOLD_LISTING: [
        _sold("all", NUMBERS),
        _sold("all", CHILDREN, parent_company_id=PARENT),
        _sold("child", CHILDREN[:1]),
        _sold("parent", (PARENT, *CHILDREN)),
        _sold("parent", CHILDREN, parent_company_id=NUMBERS[PARENT]),
        _sold("two", (CHILDREN[0], LONE)),
        _sold("all", [LONE], platform_company_id=LONE),
    ],
}
