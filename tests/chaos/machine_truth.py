"""What is true at a moment: which states each record can be seen in, worked out beside the indexer.

A record's state is that of `tests.indexer.model`, where the name says all that a partner sees of it: whose it is, its
status, and which change made it so. The answered record carries it as its `ListingID`, in every form of the answer.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mappings import LISTING, Resource
from tests.indexer.model import BEGIN, Model, State
from tests.records import deletion, envelope

PARENT = "parent-co"
CHILDREN = ("child-a", "child-b")
LONE = "lone"
STATUSES = ("Active", "Pending", "Sold", "Expired", "ComingSoon")
NUMBERS = {PARENT: "1", CHILDREN[0]: "2", CHILDREN[1]: "3", LONE: "4"}
# Of states of one moment a deletion is the last, then comes what a full source lacked.
_RANKS = {None: 0, "vanished": 1, "deleted": 2}


class Form(NamedTuple):
    """What a change makes of a record."""

    company: str
    status: str

    def name(self, change: int) -> str:
        """Return the name of the state."""
        return f"{self.company} {self.status} {change}"


FORMS = [Form(company, status) for company in NUMBERS for status in STATUSES]
# What else can become of a record.
OTHERS = ("deletion", "late", "late deletion", "overtaken", "touch", "back")
# What identifiers end in: texts that begin alike, and characters that mean something to somebody.
ENDS = ("0", "00", "9", "A", "B", "a", "a-1", "a1", "a10", "a2", "b", "b:c", "b;c", "c%2F", "c+d", "m,n", 'q"',
        "z", "zz", "~", "é", "漢", "😀")  # fmt: skip


class Span(NamedTuple):
    """When some work began and ended, in milliseconds of the indexer's clock."""

    begin: int
    end: int


def form_of(name: str) -> Form:
    """Return the form of a state with this name."""
    return Form(*name.split(" ")[:2])


def line(resource: Resource, identifier: str, state: State, owner: str) -> dict[str, Any]:
    """Return the envelope that brings a record to a state; a deletion names the company that it had last."""
    moment = (BEGIN + dt.timedelta(seconds=state.moment)).isoformat()
    if state.name is None:
        return deletion(resource, identifier, moment) | {"platform_company_id": owner}
    form = form_of(state.name)
    status = form.status if resource is LISTING else "Sold"
    record = {
        "PlatformListingId": identifier,
        "ListingID": state.name,
        "Status": status,
    }
    return envelope(resource, record, updated_at=moment, platform_company_id=form.company)


def state_of(document: dict[str, Any]) -> State:
    """Return the state that an indexed document is in."""
    moment = (document["version"] >> 10) // 1_000_000 - int(BEGIN.timestamp())
    name = None if document["deleted"] else document["record"]["ListingID"]
    return State(moment, name, document.get("reason"))


def is_newer(state: State, known: State | None) -> bool:
    """Tell which of two states of a record is the later one."""
    return known is None or (state.moment, _RANKS[state.reason]) > (
        known.moment,
        _RANKS[known.reason],
    )


States = dict[str, State]


@dataclass
class Truth:
    """What is live, what a rollback would bring back, and what the work under way will make of it."""

    model: Model = field(default_factory=Model)
    previous: States | None = field(default_factory=dict)
    since_swap: set[str] = field(default_factory=set)  # written since the live generation went live
    after: States | None = None  # what is live once the work under way is done
    lows: dict[str, float] = field(default_factory=dict)  # bounds of the clock that `updated_since` compares
    highs: dict[str, float] = field(default_factory=dict)

    def possible(self, identifier: str) -> tuple[State | None, ...]:
        """Return the states in which a record may be seen now."""
        now = self.model.live.get(identifier)
        return (now,) if self.after is None else (now, self.after.get(identifier))

    def clocks(self, identifier: str) -> tuple[float, float]:
        """Return between which moments a record's clock is, in milliseconds."""
        states = self.possible(identifier)
        high = math.inf if len(set(states)) > 1 else self.highs.get(identifier, 0)
        return self.lows.get(identifier, 0), high

    def updated(self, changes: States) -> States:
        """Return what is live after some updates, which come too late or do not."""
        late = {name for name, state in changes.items() if not is_newer(state, self.model.live.get(name))}
        return {
            **self.model.live,
            **{name: state for name, state in changes.items() if name not in late},
        }

    def update(self, changes: States, span: Span) -> None:
        """Apply updates; what comes too late for the live generation is kept in the one before."""
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
        """Return what is live after a rebuild that began when `before` was."""
        copy = Model(dict(self.model.live), set(self.model.written))
        copy.rebuild(before, source, taken_at)
        return copy.live

    def swap(self, after: States, span: Span) -> None:
        """Put what was built in the place of what is live."""
        self.previous = dict(self.model.live)
        for name, state in after.items():
            known = self.model.live.get(name)
            if (known.name if known else None) != state.name:
                self._changed(name, span)
            elif name in self.model.written:
                self.highs[name] = span.end + 1_000
        self.model.live, self.since_swap = after, set()

    def rolled_back(self) -> States:
        """Return what is live after a rollback."""
        after = dict(self.previous or {})
        for name in self.since_swap:
            if is_newer(state := self.model.live[name], after.get(name)):
                after[name] = state
        return after

    def forget_clocks(self) -> None:
        """Know nothing of clocks: those of what a rollback brings back are what they were."""
        self.lows, self.highs = {}, dict.fromkeys({**self.model.live, **(self.previous or {})}, math.inf)

    def roll_back(self, after: States) -> None:
        """Bring back what was replaced."""
        self.forget_clocks()
        self.model.live, self.previous, self.since_swap = after, None, set()

    def _changed(self, name: str, span: Span) -> None:
        # Stamps lie above the mark, so they may be some milliseconds ahead of the clock.
        self.lows[name], self.highs[name] = span.begin, span.end + 1_000
