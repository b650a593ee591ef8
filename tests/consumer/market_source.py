"""Listings and offices of three companies as their source knows them, and what happens to them, at random."""

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from mappings import COMPANY, LISTING, OFFICE, Resource
from tests.records import deletion, envelope

COMPANIES = ("a", "b", "c")
_NUMBER = {LISTING: "ListPrice", OFFICE: "phone"}
_OFFICES_SHARE = 0.05
_KINDS = {"update": 65, "new": 8, "delete": 10, "move": 10, "market": 5, "touch": 2}

Line = dict[str, Any]


class RecordName(NamedTuple):
    """A record's resource and identifier."""

    resource: Resource
    id: str


class MarketState(NamedTuple):
    """What can change of a record; a listing that is not active is off the market, an office deactivated."""

    company: str
    number: int
    is_active: bool = True


@dataclass
class MarketSource:
    """What the source holds. Every change has a moment of its own, so that the newest is never in doubt."""

    chance: random.Random
    counts: Counter[str]
    alive: dict[RecordName, MarketState] = field(default_factory=dict)
    _gone: list[RecordName] = field(default_factory=list)
    # When it was changed last, and its company then.
    _dates: dict[RecordName, tuple[dt.datetime, str]] = field(default_factory=dict)
    _last: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    _number: int = 0

    def open(self, listings: int, offices: int) -> None:
        """Begin with some records of each company."""
        for resource, count in (LISTING, listings), (OFFICE, offices):
            for _ in range(count):
                self._put(self._unused(resource), MarketState(self.chance.choice(COMPANIES), self._fresh()))

    def changes(self, count: int) -> dict[Resource, list[Line]]:
        lines: dict[Resource, list[Line]] = {LISTING: [], OFFICE: []}
        listings, offices = self._names(LISTING), self._names(OFFICE)
        for _ in range(count):
            name = self.chance.choice(offices if self.chance.random() < _OFFICES_SHARE else listings)
            if name in self.alive:  # else it was deleted by one of these
                name = self._happen(name)
                lines[name.resource].append(self._line(name))
        return lines

    def source(self) -> dict[Resource, list[Line]]:
        companies = [envelope(COMPANY, {"platform_company_id": key, "numeric_id": None}) for key in COMPANIES]
        whole = {resource: [self._line(name) for name in self._names(resource)] for resource in (LISTING, OFFICE)}
        return {COMPANY: companies, **whole}

    def seen(self, resource: Resource, companies: str) -> dict[str, tuple[str, int]]:
        """Return company and number of what is active in some companies, by identifier."""
        return {
            name.id: (state.company, state.number)
            for name, state in self.alive.items()
            if name.resource is resource and state.company in companies and state.is_active
        }

    def _names(self, resource: Resource) -> list[RecordName]:
        return [name for name in self.alive if name.resource is resource]

    def _happen(self, name: RecordName) -> RecordName:
        (kind,) = self.chance.choices([*_KINDS], [*_KINDS.values()])
        self.counts[kind] += 1
        if kind == "new":
            name = self._unused(name.resource)
            self._put(name, MarketState(self.chance.choice(COMPANIES), self._fresh()))
        elif kind == "delete":
            self._date(name, self.alive.pop(name).company)
            self._gone.append(name)
        else:
            self._put(name, self._changed(kind, self.alive[name]))
        return name

    def _changed(self, kind: str, state: MarketState) -> MarketState:
        after: dict[str, Callable[[], MarketState]] = {
            "update": lambda: state._replace(number=self._fresh()),
            "move": lambda: state._replace(company=self.chance.choice([c for c in COMPANIES if c != state.company])),
            "market": lambda: state._replace(is_active=not state.is_active),
            "touch": lambda: state,
        }
        return after[kind]()

    def _put(self, name: RecordName, state: MarketState) -> None:
        self.alive[name] = state
        self._date(name, state.company)

    def _date(self, name: RecordName, company: str) -> None:
        self._last = max(self._last + dt.timedelta(microseconds=1), dt.datetime.now(dt.UTC))
        self._dates[name] = self._last, company

    def _unused(self, resource: Resource) -> RecordName:
        """Return a new name, or one that was deleted: it comes again."""
        if self._gone and self._gone[-1].resource is resource and self.chance.random() < 0.5:
            return self._gone.pop()
        return RecordName(resource, f"{resource.alias[0]}{self._fresh()}")

    def _fresh(self) -> int:
        self._number += 1
        return self._number

    def _line(self, name: RecordName) -> Line:
        moment, company = self._dates[name]
        at = moment.isoformat()
        if (state := self.alive.get(name)) is None:
            return deletion(name.resource, name.id, at) | {"platform_company_id": company}
        listing, is_listing = {"Status": "Active" if state.is_active else "Canceled"}, name.resource is LISTING
        changes = {name.resource.identifier: name.id, _NUMBER[name.resource]: _shown(name.resource, state.number)}
        return envelope(
            name.resource,
            changes | (listing if is_listing else {}),
            updated_at=at,
            platform_company_id=company,
            deactivated_at=None if state.is_active or is_listing else at,
        )


def _shown(resource: Resource, number: int) -> int | str:
    return number if resource is LISTING else str(number)


def number_of(resource: Resource, record: bytes) -> int:
    return int(orjson.loads(record)[_NUMBER[resource]])
