"""Which field the name of a column probably means."""

import difflib
import re
import tomllib
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from mappings import LISTING, RESOURCES, SOLD_LISTING, Resource
from mappings.fields import FieldKind

_SEPARATORS = re.compile(r"[\W_]+")
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
    """Return a name without case, spaces and punctuation."""
    return _SEPARATORS.sub("", name).casefold().replace("#", "number")


def field_of_column(resource: Resource, column: str) -> NamedField | None:
    """Return the field that a column's name means, or is close to."""
    known, name = _known_names(resource), folded(column.replace("#", " number"))
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1, cutoff=_LEAST_SIMILARITY)
    return NamedField(known[close[0]].name, Confidence.LOW) if close else None


@cache
def _known_names(resource: Resource) -> dict[str, NamedField]:
    """Return fields by folded name; a field's own name precedes those of the Data Dictionary and synonyms."""
    fillable = {one.name for one in resource.stored if not one.kind.is_list and one.kind is not FieldKind.OBJECT}
    fillable |= {IMAGES, *ENVELOPE} if any(one.name == IMAGES for one in resource.stored) else {*ENVELOPE}
    known = {folded(name): NamedField(name, Confidence.CERTAIN) for name in sorted(fillable)}
    for name, others in (*_dictionary_names(resource), *_synonyms(resource)):
        for other in others if name in fillable else ():
            known.setdefault(folded(other.replace("#", " number")), NamedField(name, Confidence.HIGH))
    return known


def _synonyms(resource: Resource) -> Iterator[tuple[str, list[str]]]:
    text = files("indexer.drafting").joinpath("synonyms.toml").read_text(encoding="utf-8")
    alias = "listings" if resource is SOLD_LISTING else resource.alias
    return iter(tomllib.loads(text)[alias].items())


def _dictionary_names(resource: Resource) -> Iterator[tuple[str, list[str]]]:
    """Yield our fields with the names that the RESO Data Dictionary has for them."""
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
_STREET_SYNONYMS = {"streetno": "StreetNumber", "housenumber": "StreetNumber", "street": "StreetName"}


def street_columns(columns: list[str]) -> list[str]:
    """Return the columns that together are an address: at least a number and the name of a street."""
    parts = {folded(name): name for name in _STREET} | _STREET_SYNONYMS
    found = {parts[folded(column)]: column for column in reversed(columns) if folded(column) in parts}
    return [found[part] for part in _STREET if part in found] if {_STREET[0], _STREET[2]} <= found.keys() else []


def resource_of(file: str, columns: list[str]) -> Resource:
    """Return the resource that a table probably has, by the names of its file and columns."""

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
