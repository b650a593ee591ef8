"""Where a record lies: the cities and school districts of King County zip codes, and invented streets and schools."""

from functools import cache
from random import Random

import msgspec

from sample.data_files import load_table
from sample.seeded_random import between, pick


class NameVocabulary(msgspec.Struct, frozen=True):
    """Words that invented names are made of."""

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
    """Return the words for invented names."""
    return load_table("names", NameVocabulary)


@cache
def load_locations() -> dict[str, Location]:
    """Return the place of each zip code."""
    return load_table("places", dict[str, Location])


def area_fields(chance: Random) -> dict[str, dict[str, object]]:
    """Return for each zip code the listing fields that all its listings share; the schools' names are invented."""
    return {code: _area_fields(code, place, chance) for code, place in load_locations().items()}


def street_address(chance: Random) -> str:
    """Return an invented street address."""
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
