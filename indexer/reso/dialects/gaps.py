"""What a source is expected to give and does not: it is reported, so that nothing is missing in silence."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from indexer.reso.client.edmx import EntityMetadata
from indexer.reso.dialects.dialect import EXPANDED, Dialect
from indexer.reso.dialects.entity_form import SourceForms
from indexer.reso.mirror.mirror_store import Mirror

# What --without can name, by entity.
WITHOUT = {
    "Media": "media",
    "OpenHouse": "open-houses",
    "Member": "members",
    "Office": "offices",
    "Teams": "teams",
    "TeamMembers": "teams",
}
DELETIONS = "deletions"
LISTINGS = "listings"
# Listings without these are wrong, not only incomplete.
_FATAL = frozenset({"media", DELETIONS, LISTINGS})
# A company with so many properties has photos.
_MIN_PROPERTIES = 10


@dataclass(frozen=True)
class Gap:
    """One thing that is missing; `kind` is the value of --without that accepts it, empty for a field."""

    kind: str
    text: str

    @property
    def is_problem(self) -> bool:
        """Whether the exit code shows it, not only a note."""
        return self.kind in _FATAL


def find_gaps(
    dialect: Dialect, forms: SourceForms, offered: Mapping[str, EntityMetadata], without: Collection[str]
) -> list[Gap]:
    """Return what the profile expects and the metadata lacks, except for what is accepted."""
    gaps = [*_entity_gaps(dialect, forms), *_deletion_gaps(dialect, offered), *_field_gaps(dialect, forms, offered)]
    return [gap for gap in gaps if gap.kind not in without]


def _entity_gaps(dialect: Dialect, forms: SourceForms) -> Iterator[Gap]:
    for name in dialect.expects:
        if name not in forms.given():
            kind = WITHOUT.get(name, "")
            yield Gap(kind, f"The source has no {name}.{_accept(kind)}")


def _deletion_gaps(dialect: Dialect, offered: Mapping[str, EntityMetadata]) -> Iterator[Gap]:
    if dialect.gone is not None and "Property" in offered and dialect.gone.field not in offered["Property"]:
        yield Gap(
            DELETIONS,
            f"Property has no {dialect.gone.field}, which marks deleted records in the profile {dialect.profile}: "
            f"deletions are found by comparing keys alone.{_accept(DELETIONS)}",
        )


def _field_gaps(dialect: Dialect, forms: SourceForms, offered: Mapping[str, EntityMetadata]) -> Iterator[Gap]:
    for name, fields in dialect.expects.items():
        known = offered[name].fields if name in forms.own_sets() else dict.fromkeys(forms.child_fields(name))
        if known and (missing := [field for field in fields if field not in known]):
            yield Gap("", f"{name} of the source has no {', '.join(missing)}.")


def unread_gap(name: str, reason: str) -> Gap:
    """Return the gap of an entity that the source refuses."""
    kind = WITHOUT.get(name, "")
    return Gap(kind, f"{reason} {name} is not read.{_accept(kind)}")


def empty_gaps(mirror: Mirror, dialect: Dialect, known: set[str]) -> Iterator[Gap]:
    """Yield the gaps of listings and photos that are nowhere, though the source has them by its metadata."""
    if not mirror.count("record", "Property") and "Property" in dialect.expects and LISTINGS not in known:
        yield Gap(LISTINGS, no_listings(dialect) + _accept(LISTINGS))
    is_empty = not mirror.count("record", "Media") and mirror.count("record", "Property") >= _MIN_PROPERTIES
    if is_empty and "Media" in dialect.expects and "media" not in known:
        where = dialect.children["Media"].places if "Media" in dialect.children else ()
        hint = ' Perhaps [dialect.children.Media] of the map needs another "from".' if EXPANDED in where else ""
        yield Gap("media", f"No record of the source has Media, so no listing has photos.{hint}{_accept('media')}")


def no_listings(dialect: Dialect) -> str:
    """Return the sentence about a source without a single listing."""
    hint = f" Is {dialect.required_filter} right?" if dialect.required_filter else ""
    return f"The source returned no Property.{hint}"


def _accept(kind: str) -> str:
    return f" If that is intended, give --without {kind}." if kind in _FATAL else ""
