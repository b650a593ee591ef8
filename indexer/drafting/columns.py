"""What a column of a table probably is: the field that its name means, and what its values show.

For fields with few values, such as statuses and types of property, also what each text or code means. Guesses are
written into the draft of the map for the operator to check; what cannot be guessed is left open.
"""

import datetime as dt
import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, Self

from indexer.reporting.report import tolerated_emptied
from indexer.source.tables.cells import ISO, parsed_time
from indexer.source.tables.lossy_cells import NO_VALUE
from indexer.source.tables.numbers import number_converter
from mappings import LISTING, RESOURCES, SOLD_LISTING, Resource
from mappings.fields import FieldKind
from mappings.listing import PROPERTY_TYPES, STATUSES

# A word of a name: capitals inside a name begin one.
_WORD = re.compile(r"[^\W\d_a-z]+(?![a-z])|[^\W\d_]?[^\W\d_A-Z]+|\d+")
_LEAST_SIMILARITY = 0.88
# Objects and lists that a column can fill: images from their addresses.
IMAGES = "ListingImages"
ENVELOPE = ("updated_at", "platform_company_id")


class Confidence(Enum):
    """How sure a guess is; a low one is only a comment of the draft."""

    CERTAIN = "certain"
    HIGH = "high"
    LOW = "low"


class NamedField(NamedTuple):
    """A field, and how sure it is that a name means it."""

    name: str
    confidence: Confidence


def folded(name: str) -> str:
    """Return a name without case, spaces, punctuation and abbreviations."""
    return "".join(words(name))


def words(name: str) -> list[str]:
    """Return the words of a name in lower case, abbreviations written out."""
    written = _abbreviations()
    found = [word.casefold() for word in _WORD.findall(name.replace("#", " number "))]
    return [written.get(word, word) for word in found]


@cache
def _abbreviations() -> dict[str, str]:
    return {short: word for word, many in _declared_synonyms()["words"].items() for short in many}


def field_of_column(resource: Resource, column: str) -> NamedField | None:
    known, name = _known_names(resource), folded(column)
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1, cutoff=_LEAST_SIMILARITY)
    return NamedField(known[close[0]].name, Confidence.LOW) if close else None


def known_columns(columns: Sequence[str]) -> int:
    """Return how many of some texts are known names of columns, of the resource that has most of them."""
    names = {*map(folded, columns)}
    return max(len(names & _known_names(resource).keys()) for resource in RESOURCES)


_MAX_CANDIDATES = 3
_LEAST_SHARED_WORDS = 0.5


def candidates(resource: Resource, column: str) -> list[str]:
    """Return the fields whose names have most of their words in common with a column's, the closest first."""
    own, shares = set(words(column)), dict[str, float]()
    for field, name in _names_of_fields(resource):
        others = set(words(name))
        shares[field] = max(shares.get(field, 0.0), len(own & others) / max(len(own | others), 1))
    close = [field for field in sorted(shares, key=lambda one: -shares[one]) if shares[field] > _LEAST_SHARED_WORDS]
    return close[:_MAX_CANDIDATES]


@cache
def _known_names(resource: Resource) -> dict[str, NamedField]:
    """Return fields by folded name; a field's own name precedes those of the Data Dictionary and synonyms."""
    known = dict[str, NamedField]()
    for field, name in _names_of_fields(resource):
        known.setdefault(folded(name), NamedField(field, Confidence.CERTAIN if name == field else Confidence.HIGH))
    return known


@cache
def _names_of_fields(resource: Resource) -> list[tuple[str, str]]:
    """Return the fields that a column can fill, each with its names: their own ones first."""
    fillable = {one.name for one in resource.stored if not one.kind.is_list and one.kind is not FieldKind.OBJECT}
    fillable |= {IMAGES, *ENVELOPE} if any(one.name == IMAGES for one in resource.stored) else {*ENVELOPE}
    others = (*_dictionary_names(resource), *_synonyms(resource))
    named = [(field, name) for field, names in others if field in fillable for name in names]
    return [*((name, name) for name in sorted(fillable)), *named]


def _synonyms(resource: Resource) -> Iterator[tuple[str, list[str]]]:
    alias = "listings" if resource is SOLD_LISTING else resource.alias
    return iter(_declared_synonyms()[alias].items())


@cache
def _declared_synonyms() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(files("indexer.drafting").joinpath("synonyms.toml").read_text(encoding="utf-8"))


def _dictionary_names(resource: Resource) -> Iterator[tuple[str, list[str]]]:
    for entity in _dictionary().values():
        if isinstance(entity, dict) and resource.alias in entity.get("aliases", ()):
            for name, declared in entity["fields"].items():
                yield name, [*_names(declared)]


def _names(declared: Any) -> Iterator[str]:
    if isinstance(declared, str):
        yield declared
    elif isinstance(declared, list):
        for one in declared:
            yield from _names(one)
    elif "field" not in declared and "join" not in declared:
        yield from (declared[key] for key in ("key", "uuid") if key in declared)


@cache
def _dictionary() -> dict[str, Any]:
    return tomllib.loads(files("mappings").joinpath("reso.toml").read_text(encoding="utf-8"))


# The parts of an address in the order in which they are written, as the Data Dictionary names them.
_STREET = ("StreetNumber", "StreetDirPrefix", "StreetName", "StreetSuffix", "StreetDirSuffix")
_STREET_SYNONYMS = {
    "housenumber": "StreetNumber",
    "stnumber": "StreetNumber",
    "street": "StreetName",
    "stname": "StreetName",
    "streetdirection": "StreetDirPrefix",
    "streettype": "StreetSuffix",
}


def street_columns(columns: list[str]) -> list[str]:
    """Return the columns that together are an address: at least a number and the name of a street."""
    parts = {folded(name): name for name in _STREET} | _STREET_SYNONYMS
    found = {parts[folded(column)]: column for column in reversed(columns) if folded(column) in parts}
    return [found[part] for part in _STREET if part in found] if {_STREET[0], _STREET[2]} <= found.keys() else []


def resource_of(file: str, columns: Sequence[str]) -> Resource:
    """Return the resource that rows are probably of, by the name of their file and of the `columns` with values."""

    def score(resource: Resource) -> tuple[float, bool]:
        named = [one for column in columns if (one := field_of_column(resource, column))]
        sure = {one.name for one in named if one.confidence is not Confidence.LOW}
        hint = any(word in folded(file.rpartition("/")[2]) for word in _FILE_WORDS[resource.alias])
        return len(sure) + 3 * hint + 0.5 * (resource.identifier in sure), resource is LISTING

    return max(RESOURCES, key=score)


_FILE_WORDS = {
    "companies": ("compan",),
    "offices": ("office", "branch"),
    "agents": ("agent", "member", "people"),
    "teams": ("team",),
    "listings": ("listing", "propert", "active"),
    "sold_listings": ("sold", "sale", "closed"),
}


_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_BOOLEANS = frozenset({"true", "false", "yes", "no", "y", "n", "1", "0"})
_CURRENCIES = "$€£¥"
_EMPTY_TEXTS = NO_VALUE | {"NA", "None", "-", "--"}
_DAYS = (
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%Y/%m/%d",
    "%m-%d-%Y",
    "%d-%m-%Y",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%Y%m%d",
)
_WRITTEN_DAYS = ("%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y", "%Y.%m.%d")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
_MAX_DATE_FORMATS = 3  # in one column
_DATE_FORMATS = tuple(day + time for day in (*_DAYS, *_WRITTEN_DAYS) for time in _TIMES)
# Signs of a number: decimal and thousands; the first that fits all values counts.
_NUMBER_SIGNS = ((".", ""), (".", ","), (",", "."), (",", ""), (".", " "), (",", " "), (".", "'"))
_STATES = frozenset(
    re.findall(
        "..",
        "ALAKAZARCACOCTDEDCFLGAHIIDILINIAKSKYLAMEMDMAMIMNMSMOMTNENVNHNJNMNYNCNDOHOKORPARISCSDTNTXUTVTVAWAWVWIWYPR",
    )
)
_ZIP = re.compile(r"[0-9]{5}(-[0-9]{4})?")


@dataclass(frozen=True)
class NumberForm:
    """How numbers are written."""

    decimal: str
    thousands: str
    currency: tuple[str, ...]
    has_fractions: bool


@dataclass(frozen=True)
class DateForm:
    """How dates are written: ISO 8601 without formats. It `is_ambiguous` if day and month could be exchanged."""

    formats: tuple[str, ...]
    is_ambiguous: bool = False


class ColumnValues:
    """A sample of a column's values that are not empty."""

    def __init__(self, values: Sequence[str]) -> None:
        self.all = [value for value in values if value]
        self.empty_texts = sorted({value for value in self.all if value in _EMPTY_TEXTS})
        self.values = [value for value in self.all if value not in _EMPTY_TEXTS]
        self.different = Counter(self.values)

    @property
    def example(self) -> str:
        return self.values[0] if self.values else ""

    @property
    def are_uuids(self) -> bool:
        return bool(self.values) and all(map(_UUID.fullmatch, self.different))

    @property
    def are_booleans(self) -> bool:
        """Whether all values are texts for yes or no."""
        return bool(self.values) and all(value.casefold() in _BOOLEANS for value in self.different)

    @property
    def are_unique(self) -> bool:
        return bool(self.values) and len(self.different) == len(self.values)

    @property
    def meaning(self) -> str | None:
        """A field of listings that the values alone suggest."""
        if not self.values:
            return None
        if all(value in _STATES for value in self.different):
            return "StateOrProvince"
        if all(map(_ZIP.fullmatch, self.different)):
            return "PostalCode"
        return "ListPrice" if all(value[0] in _CURRENCIES for value in self.different) else None

    def are_numbers(self, form: NumberForm) -> bool:
        convert = number_converter(form.decimal, form.thousands, form.currency)
        with suppress(ValueError):
            return all(convert(value) is not None for value in self.different)
        return False

    @property
    def number_form(self) -> NumberForm | None:
        """How the values are numbers, None if they are not."""
        signs = tuple(sign for sign in _CURRENCIES if any(sign in value for value in self.different))
        for decimal, thousands in _NUMBER_SIGNS if self.values else ():
            convert = number_converter(decimal, thousands, signs)
            with suppress(ValueError):
                numbers = [convert(value) for value in self.different]
                return NumberForm(decimal, thousands, signs, any(number % 1 for number in numbers))
        return None

    def without_misfits(self, form: str) -> Self | None:
        """Return the values without those that have no `number_form` or `date_form`; None unless these are few."""
        fitting = {value for value in self.different if getattr(type(self)([value]), form) is not None}
        rest = [value for value in self.values if value in fitting]
        misfits = len(self.values) - len(rest)
        is_minority = 0 < misfits < len(rest) and misfits <= tolerated_emptied(len(self.values))
        return type(self)(rest) if is_minority else None

    @property
    def date_form(self) -> DateForm | None:
        """How the values are dates or date-times, None if they are not."""
        rest, formats, is_ambiguous = list(self.different), list[str](), False
        while rest and len(formats) < _MAX_DATE_FORMATS:
            fitting = [one for one in (ISO, *_DATE_FORMATS) if _is_date(rest[0], one)]
            covered = {one: [value for value in rest if _is_date(value, one)] for one in fitting}
            if not covered:
                return None
            best = max(covered, key=lambda one: len(covered[one]))
            orders = {one[:2] for one, values in covered.items() if len(values) == len(covered[best])}
            is_ambiguous |= {"%m", "%d"} <= orders
            formats.append(best)
            rest = [value for value in rest if value not in covered[best]]
        if rest or not formats or {"%m/", "%d/"} <= {one[:3] for one in formats}:
            return None
        return DateForm(() if formats == [ISO] else tuple(formats), is_ambiguous)


def _is_date(text: str, form: str) -> bool:
    with suppress(ValueError):
        return 1700 < parsed_time(text, (form,)).year < dt.MAXYEAR // 4
    return False


# Codes, which are whole texts; folded.
_STATUS_CODES = {
    "Active": "a act new bom pc rea ext",
    "Pending": "p pnd pend u uc ua uag stc sstc",
    "Contingent": "ctg cont auc",
    "ComingSoon": "cs csn",
    "Sold": "c cl cls clsd s sld",
    "Expired": "x exp",
    "Canceled": "can cancelled",
    "Withdrawn": "w wth wdn",
    "TempOffMarket": "t tom toma h",
}
# Parts of longer texts. The first that a text has counts: "Sold STC" is not sold yet. A text with one of the first says
# what a listing is not.
_STATUS_PARTS = {
    None: "not longer inactive unavailable unsold",
    "Contingent": "contingen kick activeunder",
    "Pending": "pending contract agreement offer stc subject option escrow deposit reserved",
    "ComingSoon": "coming",
    "TempOffMarket": "temp hold offmarket",
    "Withdrawn": "withdrawn removed",
    "Canceled": "cancel terminated",
    "Expired": "expired",
    "Sold": "sold closed settled completed",
    "Active": "active reactivated forsale available onmarket pricechange extended",
}
_TYPE_CODES = {
    "Residential": "r res sf sfr sfh sfd det",
    "Condo": "cnd con co",
    "Townhouse": "th twn tnh",
    "Multifamily": "mf mul mfr ri dup",
    "Land": "l lnd",
    "Mfghome": "mh mfd mob",
    "Farm/Ranch": "frm",
    "Rental": "rnt rl",
    "Commerical": "com ci cm",
    "Apartment": "apt",
}
_TYPE_PARTS: dict[str | None, str] = {
    "Commercial Lease": "commerciallease",
    "Business Opportunity": "business",
    "Commerical": "commercial office retail",
    "Co-op": "coop cooperative",
    "Condo": "condo",
    "Townhouse": "townho rowho",
    "Mfghome": "manuf mobile modular",
    "Multifamily": "multi duplex triplex plex income",
    "Farm/Ranch": "farm ranch",
    "Rental": "rental lease",
    "Land": "land acreage vacant",
    "Apartment": "apartment",
    "Timeshare": "timeshare",
    "Residential": "resid single detached house home villa bungalow",
}


class Choices:
    """The values of a field, and what other texts mean; the `fallback` is for texts whose meaning is unknown."""

    def __init__(
        self,
        values: tuple[str, ...],
        codes: Mapping[str, str],
        parts: Mapping[str | None, str],
        fallback: str | None = None,
    ) -> None:
        self.own = {folded(value): value for value in values}
        self._codes = {code: value for value, several in codes.items() for code in several.split()} | self.own
        self._parts = parts
        self._fallback = fallback

    def meaning(self, text: str) -> str | None:
        """Return the value that a text probably means, None if that is unknown."""
        name = folded(text)
        by_part = (one for one, parts in self._parts.items() if any(part in name for part in parts.split()))
        return self._codes.get(name) or next(by_part, self._fallback)


CHOICES = {
    "Status": Choices(STATUSES, _STATUS_CODES, _STATUS_PARTS),
    "PropertyType": Choices(tuple(PROPERTY_TYPES.values()), _TYPE_CODES, _TYPE_PARTS, "Not Found"),
}
