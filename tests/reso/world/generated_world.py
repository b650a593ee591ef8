"""A made-up MLS: plausible records of all resources from a seed, and a share of what real feeds hold besides."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING

from sample.ingredients import between, pick, seeded_random, uuid
from tests.reso.server.schema import ENTITY_TYPES
from tests.reso.world.child_records import make_open_house, make_photo
from tests.reso.world.listing_records import make_listing
from tests.reso.world.oddities import FUTURE, KEYS, ODDITIES, put_oddity
from tests.reso.world.people_records import make_member, make_office, make_team, make_team_member
from tests.reso.world.status_changes import Participants
from tests.reso.world.vocabulary import LISTS, PROPERTY_TYPES, STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from tests.reso.server.schema import Record
    from tests.reso.server.store import Store

TODAY = dt.date(2026, 3, 2)
# With strange keys, and with moments in the far future, a few of each.
_STRANGE = ("Property", "Member", "Office", "Media")
_EARLY = ("Property", "Member", "Media")


@dataclass
class World:
    """Records of each resource, complete but for their stamps; `stamps` and `oddities` by resource and key."""

    today: dt.date
    records: dict[str, list[Record]] = field(default_factory=dict)
    stamps: dict[tuple[str, str], str] = field(default_factory=dict)
    oddities: dict[tuple[str, str], str] = field(default_factory=dict)

    def put_into(self, store: Store) -> None:
        """Write every record, offices first, listings before their children."""
        for resource in self.records:
            key = ENTITY_TYPES[resource].key
            for record in self.records[resource]:
                store.put(resource, record, self.stamps.get((resource, record[key])))

    @property
    def cast(self) -> Participants:
        """Who lists and sells in it."""
        return Participants(self.records["Member"], self.records["Teams"], self.today)


def make_world(
    seed: int,
    *,
    properties: int = 5_000,
    media: int = 25_000,
    open_houses: int = 10_000,
    members: int = 300,
    offices: int = 60,
    teams: int = 40,
    team_members: int = 120,
    hostile: float = 0.02,
    today: dt.date = TODAY,
) -> World:
    """Return a world of so many records. `hostile` is the share with an oddity; 0: nothing odd, keys included."""
    made = _WorldBuilder(World(today), seed, hostile)
    made.offices(offices)
    made.members(members)
    made.teams(teams, team_members)
    made.listings(properties)
    made.media(media)
    made.open_houses(open_houses)
    made.world.records["Lookup"] = [complete("Lookup", record) for record in _lookups(seeded_random(seed, "lookups"))]
    made.future()
    return made.world


def complete(resource: str, record: Record) -> Record:
    """Return a record with all fields of its resource, null where it says nothing."""
    return dict.fromkeys(ENTITY_TYPES[resource].fields) | record


class _WorldBuilder:
    """Each resource has dice of its own: more of one does not change the others."""

    def __init__(self, world: World, seed: int, hostile: float) -> None:
        self.world, self._seed, self._hostile = world, seed, hostile

    def _keep(self, resource: str, records: Iterator[Record]) -> None:
        chance, kept = seeded_random(self._seed, f"oddities of {resource}"), []
        # Each comes once before one comes again.
        names = cycle(chance.sample(sorted(ODDITIES[resource]), len(ODDITIES[resource])))
        for bare in records:
            record = complete(resource, bare)
            if chance.random() < self._hostile:
                key = record[ENTITY_TYPES[resource].key]
                self.world.oddities[resource, key] = name = next(names)
                put_oddity(chance, resource, name, record)
            kept.append(record)
        self.world.records[resource] = kept

    def _keys(self, resource: str, count: int) -> list[str]:
        chance = seeded_random(self._seed, f"keys of {resource}")
        keys = [uuid(chance) for _ in range(count)]
        strange = KEYS[: count // 10] if self._hostile and resource in _STRANGE else ()
        for at, key in zip(chance.sample(range(count), len(strange)), strange, strict=True):
            keys[at] = key
        return keys

    def offices(self, count: int) -> None:
        chance = seeded_random(self._seed, "offices")
        made: list[Record] = []
        for key in self._keys("Office", count):
            is_branch = made and chance.random() < 0.3
            made.append(make_office(chance, key, pick(chance, made) if is_branch else None))
        self._keep("Office", iter(made))

    def members(self, count: int) -> None:
        chance, offices = seeded_random(self._seed, "members"), self.world.records["Office"]
        self._keep("Member", (make_member(chance, key, pick(chance, offices)) for key in self._keys("Member", count)))

    def teams(self, count: int, members: int) -> None:
        chance, people = seeded_random(self._seed, "teams"), self.world.records["Member"]
        self._keep("Teams", (make_team(chance, key, pick(chance, people)) for key in self._keys("Teams", count)))
        made = self.world.records["Teams"]
        links = members if made else 0
        self._keep(
            "TeamMembers", (make_team_member(chance, pick(chance, made), pick(chance, people)) for _ in range(links))
        )

    def listings(self, count: int) -> None:
        chance, cast = seeded_random(self._seed, "listings"), self.world.cast
        self._keep("Property", (make_listing(chance, key, cast) for key in self._keys("Property", count)))

    def media(self, count: int) -> None:
        """Most belong to listings, a tenth to members and offices; orders count up within a parent."""
        chance = seeded_random(self._seed, "media")
        orders: dict[tuple[str, str], int] = {}

        def made(key: str) -> Record:
            resource = pick(chance, ("Property",) * 18 + ("Member", "Office"))
            resource = resource if self.world.records[resource] else "Member"
            parent = pick(chance, self.world.records[resource])[ENTITY_TYPES[resource].key]
            orders[resource, parent] = order = orders.get((resource, parent), 0) + 1
            return make_photo(chance, key, resource, parent, order)

        self._keep("Media", (made(key) for key in self._keys("Media", count)))
        for record in self.world.records["Property"]:
            record["PhotosCount"] = orders.get(("Property", record["ListingKey"]), 0)

    def open_houses(self, count: int) -> None:
        chance, homes = seeded_random(self._seed, "open houses"), self.world.records["Property"]
        keys = self._keys("OpenHouse", count if homes else 0)
        self._keep("OpenHouse", (make_open_house(chance, key, pick(chance, homes), self.world.today) for key in keys))

    def future(self) -> None:
        """Let a few records say that they will be changed in years."""
        chance = seeded_random(self._seed, "future")
        for resource in _EARLY if self._hostile else ():
            records = self.world.records[resource]
            for stamped in FUTURE[: len(records) // 10]:
                key = records[between(chance, 0, len(records) - 1)][ENTITY_TYPES[resource].key]
                self.world.stamps[resource, key] = stamped


def _lookups(chance: Random) -> Iterator[Record]:
    subtypes = sorted({subtype for of_type in PROPERTY_TYPES.values() for subtype in of_type})
    named: dict[str, Iterable[str]] = {
        "StandardStatus": STATUSES,
        "PropertyType": PROPERTY_TYPES,
        "PropertySubType": subtypes,
        **LISTS,
    }
    for name, values in named.items():
        for value in values:
            yield {
                "LookupKey": uuid(chance),
                "LookupName": name,
                "LookupValue": value,
                "StandardLookupValue": value,
                "LegacyODataValue": "".join(letter for letter in value.title() if letter.isalnum()),
            }
