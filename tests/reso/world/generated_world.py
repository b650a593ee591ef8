"""A made-up MLS: records of all resources from a seed, and a share of what real feeds hold besides.

A value follows from the type and the name of its field; replication reads no sense into it.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson

from sample.ingredients import between, pick, seeded_random, uuid, weighted_list
from tests.reso.server.schema import (
    BOOLEAN,
    DATE,
    DECIMAL,
    ENTITY_TYPES,
    INT32,
    MODIFICATION_FIELD,
    PRIVATE,
    STRING,
    STRINGS,
    TIMESTAMP,
    Record,
    complete,
)
from tests.reso.server.server_settings import UNDETECTABLE_FAULTS, ServerFault, ServerSettings
from tests.reso.server.store import Store
from tests.reso.world.invalid_values import POOL

# The value of every private field of a made-up record, and nowhere else.
CANARY = "CANARY"
FUTURE = ("2099-01-01T00:00:00.000Z", "2027-12-31T12:00:00.500Z", "9999-12-31T23:59:59.999Z")
KEYS = (
    *("O'Brien 7", "50% off", "100%25", "a+b", "R&D=1", "Zürich-8001", "键-19", "#4?x=1", "semi;colon, comma"),
    *('"quoted"', "(in) parentheses", "Case-Twin", "CASE-TWIN"),
)
_TODAY = dt.date(2026, 3, 2)

# Which resource a key is of. A dangling one is of none.
REFERENCES = {
    "OpenHouse": {"ListingKey": "Property", "ShowingAgentKey": "Member"},
    "TeamMembers": {"TeamKey": "Teams", "MemberKey": "Member"},
    "Teams": {"TeamLeadKey": "Member"},
    "Member": {"OfficeKey": "Office"},
    "Office": {"MainOfficeKey": "Office"},
    "Property": {
        **dict.fromkeys(("ListAgentKey", "CoListAgentKey", "BuyerAgentKey"), "Member"),
        **dict.fromkeys(("ListOfficeKey", "CoListOfficeKey", "BuyerOfficeKey"), "Office"),
        "ListTeamKey": "Teams",
    },
}
_PARENTS = ("Property",) * 8 + ("Member", "Office")
_OF_PEOPLE: dict[str | None, int] = {"Active": 8, "Inactive": 1, None: 1}
# What replication depends on, and how often each is there.
_SHARES: dict[str, dict[str | None, int]] = {
    "StandardStatus": {
        "Active": 52,
        "Closed": 16,
        "Pending": 8,
        "Active Under Contract": 6,
        "Coming Soon": 4,
        "Expired": 4,
        "Withdrawn": 3,
        "Canceled": 3,
        "Hold": 2,
        "Incomplete": 1,
        "Delete": 1,
    },
    "PropertyType": {"Residential": 7, "Land": 2, "Residential Lease": 1, "Commercial Sale": 1, "Farm": 1},
    "PropertySubType": {"Single Family Residence": 3, "Condominium": 2, "Townhouse": 1, "Hotel/Motel": 1},
    "MemberStatus": _OF_PEOPLE,
    "OfficeStatus": _OF_PEOPLE,
    "TeamStatus": _OF_PEOPLE,
    "MediaCategory": {"Photo": 17, "Video": 1, "Document": 1, "Floor Plan": 1},
    "MediaType": {"jpeg": 1},
    "MediaStatus": {"Complete": 5, None: 4, "Deleted": 1},
    "OpenHouseStatus": {"Active": 8, "Canceled": 1, "Ended": 1},
    "OpenHouseType": {"Public": 8, "Broker": 1, "Office": 1},
}
_CHOICES = {name: weighted_list(shares) for name, shares in _SHARES.items()}
_WORDS = ("Ashgrove", "Coeur Vallée", "O'Fallon Springs", "Peñasco Hills", "Rain & Fog", "Центр", "#12", "a b", "1/2")


def make_record(chance: Random, resource: str, key: str, known: Callable[[str], Sequence[Any]]) -> Record:
    """Return a record with a key; it refers to records of which `known` gives the keys."""
    entity, record = ENTITY_TYPES[resource], complete(resource, {})
    for name, kind in entity.fields.items():
        record[name] = None if name not in _CHOICES and chance.random() < 0.1 else _value(chance, name, kind)
    if resource == "Media":
        parents = [parent for parent in _PARENTS if known(parent)]
        record["ResourceName"] = parent = pick(chance, parents)
        record |= {
            "ResourceRecordKey": pick(chance, known(parent)),
            "Permission": [pick(chance, ("Public",) * 9 + ("Private",))],
        }
    for name, other in REFERENCES.get(resource, {}).items():
        is_there = known(other) and (resource in {"OpenHouse", "TeamMembers"} or chance.random() < 0.8)
        record[name] = pick(chance, known(other)) if is_there else None
    if resource == "OpenHouse":
        day, hour = _TODAY + dt.timedelta(days=between(chance, -20, 20)), between(chance, 9, 20)
        times = {
            "OpenHouseStartTime": f"{day}T{hour:02d}:00:00.000Z",
            "OpenHouseEndTime": f"{day}T{hour + 2}:30:00.000Z",
        }
        record |= {"OpenHouseDate": day.isoformat()} | times
    return (
        record
        | {entity.key: key, MODIFICATION_FIELD: None}
        | ({"PhotosCount": 0} if resource == "Property" else {})
        | {private: f"{CANARY}-{private}-{chance.getrandbits(24):06x}" for private in PRIVATE.get(resource, ())}
    )


def _value(chance: Random, name: str, kind: str) -> Any:
    if name in _CHOICES:
        return pick(chance, _CHOICES[name])
    if "URL" in name:
        return f"https://media.example.com/{uuid(chance)}.jpg"
    return _BY_TYPE[kind](chance, name)


def _day(chance: Random) -> str:
    return (_TODAY - dt.timedelta(days=between(chance, 0, 700))).isoformat()


_BY_TYPE: dict[str, Callable[[Random, str], Any]] = {
    STRING: lambda chance, _: f"{pick(chance, _WORDS)} {chance.getrandbits(24)}",
    STRINGS: lambda chance, _: [word for word in _WORDS if chance.random() < 0.3],
    BOOLEAN: lambda chance, _: chance.random() < 0.5,
    INT32: lambda chance, _: between(chance, 0, 2026),
    DECIMAL: lambda chance, name: round(
        chance.uniform(-90, 90) if "tude" in name else chance.uniform(0, 3_000_000), between(chance, 0, 4)
    ),
    DATE: lambda chance, _: _day(chance),
    TIMESTAMP: lambda chance, _: f"{_day(chance)}T{between(chance, 10, 23)}:10:11.120Z",
}


def _is_sendable(value: object) -> bool:
    """Whether JSON has it."""
    try:
        return repr(orjson.loads(orjson.dumps(value))) == repr(value)
    except TypeError:
        return False


_SENDABLE = [value for value in POOL if _is_sendable(value)]


def spoil(chance: Random, resource: str, record: Record) -> Record:
    """Return a record with absurd values, and with references to nothing; what is private stays recognisable."""
    references = REFERENCES.get(resource, {"ResourceRecordKey": ""})
    fixed = {ENTITY_TYPES[resource].key, MODIFICATION_FIELD, "ResourceName", *references, *PRIVATE.get(resource, ())}
    free = [name for name in record if name not in fixed]
    absurd = {pick(chance, free): pick(chance, _SENDABLE) for _ in range(between(chance, 0, 3))}
    dangling = {pick(chance, [*references]): pick(chance, (None, uuid(chance)))} if chance.random() < 0.4 else {}
    return record | absurd | dangling


@dataclass
class World:
    """Records of each resource, complete but for their stamps; `stamps` by resource and key."""

    records: dict[str, dict[str, Record]] = field(default_factory=dict)
    stamps: dict[tuple[str, str], str] = field(default_factory=dict)

    def put_into(self, store: Store) -> None:
        for resource, records in self.records.items():
            for key, record in records.items():
                store.put(resource, record, self.stamps.get((resource, key)))


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
) -> World:
    """Return a world of so many records. `hostile` is the share with absurd values; 0: no strange keys either."""
    world = World()
    sizes = {"Office": offices, "Member": members, "Teams": teams, "TeamMembers": team_members if teams else 0}
    sizes |= {"Property": properties, "Media": media, "OpenHouse": open_houses if properties else 0}
    keys = {name: _keys(seeded_random(seed, f"keys of {name}"), size, hostile) for name, size in sizes.items()}
    for resource, chance in ((name, seeded_random(seed, name)) for name in sizes):
        made = {key: make_record(chance, resource, key, lambda other: keys.get(other, ())) for key in keys[resource]}
        world.records[resource] = {
            key: spoil(chance, resource, record) if chance.random() < hostile else record
            for key, record in made.items()
        }
        for key, stamp in zip(keys[resource], FUTURE if hostile else (), strict=False):
            world.stamps[resource, key] = stamp
    for photo in world.records["Media"].values():
        of = world.records.get(photo["ResourceName"], {}).get(photo["ResourceRecordKey"], {})
        if isinstance(count := of.get("PhotosCount"), int):
            of["PhotosCount"] = count + 1
    return world


def _keys(chance: Random, count: int, hostile: float) -> list[str]:
    strange = KEYS[: count // 10] if hostile else ()
    return chance.sample([*strange, *(uuid(chance) for _ in range(count - len(strange)))], count)


def random_settings(seed: int, *, with_undetectable: bool = False, **fixed: Any) -> ServerSettings:
    """Return the settings of a server, drawn but for what is `fixed`. Half have faults, lies if requested."""
    chance = seeded_random(seed, "server")
    most = pick(chance, (20, 50, 200, 2_000))
    lying = () if with_undetectable else UNDETECTABLE_FAULTS
    faults = {fault: chance.uniform(0, 0.02) for fault in ServerFault if fault not in lying}
    ways: dict[str, Any] = {
        "seed": seed,
        "default_page": between(chance, 5, most),
        "max_page": most,
        "paging": pick(chance, ("skip", "token")),
        "compares_text": chance.random() < 0.3,
        "shuffles_ties": chance.random() < 0.5,
        "compresses": chance.random() < 0.5,
        "root_path": pick(chance, ("", "/reso/odata")),
        "tick_every": pick(chance, (1, 1, 7, 60)),
        "drift_ms": pick(chance, (0, 0, 20)),
        "event_gap": pick(chance, (0, 2, 50)),
        "late_share": pick(chance, (0.0, 0.1)),
        "late_requests": between(chance, 1, 5),
        "faults": faults if chance.random() < 0.5 else {},
        "retry_after_seconds": 0,
        "slow_seconds": 0.05,
    }
    return ServerSettings(**(ways | fixed))
