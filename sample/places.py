"""Where a record lies: the cities and school districts of King County zip codes, and invented streets and schools."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import msgspec

from sample.dice import between, pick
from sample.tables import table

if TYPE_CHECKING:
    from random import Random


class Names(msgspec.Struct, frozen=True):
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


class Place(msgspec.Struct, frozen=True):
    """What is known of a zip code. The school district is the one that covers most of it."""

    city: str
    school_district: str
    community: str | None


@cache
def names() -> Names:
    """Return the words for invented names."""
    return table("names", Names)


@cache
def places() -> dict[str, Place]:
    """Return the place of each zip code."""
    return table("places", dict[str, Place])


def area_facts(chance: Random) -> dict[str, dict[str, object]]:
    """Return for each zip code the listing fields that all its listings share; the schools' names are invented."""
    return {code: _facts(code, place, chance) for code, place in places().items()}


def address(chance: Random) -> str:
    """Return an invented street address."""
    words = names()
    street = f"{pick(chance, words.streets)} {pick(chance, words.street_kinds)} {pick(chance, words.quarters)}"
    return f"{between(chance, 100, 39999)} {street}"


def _facts(code: str, place: Place, chance: Random) -> dict[str, object]:
    return {
        "ElementarySchool": f"{pick(chance, names().schools)} Elementary",
        "HighSchool": f"{pick(chance, names().schools)} High",
        "SchoolDistrict": place.school_district,
        "City": place.city,
        "CountyOrParish": "King",
        "StateOrProvince": "WA",
        "PostalCode": code,
        "Community": place.community,
        "MiddleOrJuniorSchool": f"{pick(chance, names().schools)} Middle",
    }
