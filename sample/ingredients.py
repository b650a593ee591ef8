"""What all records are made of: seeded chance, moments, words and places, and the envelope of a line.

Every part of the source has a generator of its own, so that one part does not shift another. Moments are relative to
now, so that the default seven-day windows show data whenever the source is written. Cities and school districts are
those of King County zip codes; streets and schools are invented.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from random import Random
from typing import Any, Self, TypeVar

import msgspec
import orjson

from mappings import RESOURCES

T = TypeVar("T")


def seeded_random(seed: int, purpose: str) -> Random:
    """Return the generator of one purpose; the same seed and purpose give the same numbers everywhere."""
    return Random(f"{seed}:{purpose}")  # noqa: S311 - sample data guards nothing


def pick(chance: Random, items: Sequence[T]) -> T:
    """Return one of `items`. Several times faster than `Random.choice`, which counts at a million records."""
    return items[int(chance.random() * len(items))]


def between(chance: Random, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`, both included."""
    return low + int(chance.random() * (high - low + 1))


def weighted_list(shares: Mapping[T, int]) -> list[T]:
    """Return a list to `pick` from in which each item stands as often as its share says."""
    return [item for item, share in shares.items() for _ in range(share)]


def uuid(chance: Random) -> str:
    """Return a random UUID (RFC 9562, version 4) in lower case."""
    digits = f"{chance.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def phone(chance: Random) -> str:
    """Return a telephone number of the range that is set aside for fiction (555-0100 to 555-0199)."""
    return f"({pick(chance, ('206', '253', '425'))}) 555-{between(chance, 100, 199):04d}"


MINUTE = 60_000  # milliseconds, as all moments here
HOUR = 60 * MINUTE
DAY = 24 * HOUR
_EPOCH = dt.date(1970, 1, 1).toordinal()
_RECENT_SHARE = 0.3
_OLDEST = 730 * DAY


@dataclass(frozen=True, slots=True)
class SampleClock:
    """The moment that the source is written for, in milliseconds since 1970."""

    now: int

    @classmethod
    def at(cls, now: dt.datetime | None) -> Self:
        """Return the clock of `now`, or of the present. A time without offset is taken as UTC."""
        moment = now or dt.datetime.now(dt.UTC)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return cls(int(aware.timestamp() * 1000))

    @property
    def latest(self) -> int:
        """The newest moment that a record may carry: a minute ago."""
        return self.now - MINUTE

    @property
    def year(self) -> int:
        return int(format_date(self.now)[:4])

    def recent(self, chance: Random) -> int:
        """Return a moment of the last seven days, less an hour for the way from writing to showing."""
        return self.latest - int(chance.random() * (7 * DAY - HOUR))

    def earlier(self, chance: Random) -> int:
        """Return a moment before the last seven days and after two years ago; the newer, the likelier."""
        return self.now - 7 * DAY - MINUTE - int(chance.random() ** 2 * (_OLDEST - 7 * DAY))

    def last_changed(self, chance: Random) -> int:
        """Return the time of a last change: 30 % of them lie in the last seven days."""
        return self.recent(chance) if chance.random() < _RECENT_SHARE else self.earlier(chance)


def format_timestamp(moment: int) -> str:
    """Spell a moment as ISO 8601 in UTC, to the millisecond."""
    return dt.datetime.fromtimestamp(moment / 1000, dt.UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def format_date(moment: int) -> str:
    return _day(moment // DAY)


@cache
def _day(days: int) -> str:
    return dt.date.fromordinal(_EPOCH + days).isoformat()


def read_data_file(file: str) -> bytes:
    return resources.files("sample").joinpath("data", file).read_bytes()


def load_table(name: str, shape: type[T]) -> T:
    """Return the JSON data file `name` in the given shape."""
    return msgspec.json.decode(read_data_file(f"{name}.json"), type=shape)


def blank_record(name: str) -> dict[str, Any]:
    """Return a record of the resource of a name, with every field in order and no values: null, or [] for lists.

    Its lists are shared: assign new ones, never append.
    """
    return _blank_records()[name].copy()


@cache
def _blank_records() -> dict[str, dict[str, Any]]:
    return {resource.name: {field.name: field.empty_value for field in resource.stored} for resource in RESOURCES}


class NameVocabulary(msgspec.Struct, frozen=True):
    first: tuple[str, ...]
    last: tuple[str, ...]
    streets: tuple[str, ...]
    street_kinds: tuple[str, ...]
    quarters: tuple[str, ...]
    schools: tuple[str, ...]
    teams: tuple[str, ...]
    titles: tuple[str, ...]
    languages: tuple[str, ...]
    programs: tuple[str, ...]


class Location(msgspec.Struct, frozen=True):
    """What is known of a zip code. The school district is the one that covers most of it."""

    city: str
    school_district: str
    community: str | None


@cache
def load_names() -> NameVocabulary:
    return load_table("names", NameVocabulary)


@cache
def load_locations() -> dict[str, Location]:
    return load_table("places", dict[str, Location])


def area_fields(chance: Random) -> dict[str, dict[str, object]]:
    """Return for each zip code the listing fields that all its listings share; the schools' names are invented."""
    return {code: _area_fields(code, place, chance) for code, place in load_locations().items()}


def street_address(chance: Random) -> str:
    words = load_names()
    street = f"{pick(chance, words.streets)} {pick(chance, words.street_kinds)} {pick(chance, words.quarters)}"
    return f"{between(chance, 100, 39999)} {street}"


def _area_fields(code: str, place: Location, chance: Random) -> dict[str, object]:
    return {
        "ElementarySchool": f"{pick(chance, load_names().schools)} Elementary",
        "HighSchool": f"{pick(chance, load_names().schools)} High",
        "SchoolDistrict": place.school_district,
        "City": place.city,
        "CountyOrParish": "King",
        "StateOrProvince": "WA",
        "PostalCode": code,
        "Community": place.community,
        "MiddleOrJuniorSchool": f"{pick(chance, load_names().schools)} Middle",
    }


def envelope_line(
    company: str, updated: int, record: Mapping[str, object], extras: Mapping[str, object] | None = None
) -> bytes:
    """Return the line of a record of `company` that was last changed at `updated`; `extras` are further members."""
    envelope = {
        "platform_company_id": company,
        "updated_at": format_timestamp(updated),
        **(extras or {}),
        "record": record,
    }
    return orjson.dumps(envelope, option=orjson.OPT_APPEND_NEWLINE)
