"""How a source gives each entity, as a set of its own or as members of other records, and what of it is missing.

What a source is expected to give and does not is reported, so that nothing is missing in silence.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from indexer.errors import SourceError
from indexer.reso.client.edmx import EntityMetadata
from indexer.reso.client.odata import string_literal
from indexer.reso.mirror import Mirror
from indexer.reso.source_map import (
    BY_KEYS,
    BY_NUMBERS,
    BY_TIMES,
    EMBEDDED,
    EXPANDED,
    OWN_SET,
    ChildSource,
    Dialect,
    Walk,
)
from mappings.data_dictionary import MODIFICATION_TIMESTAMP, DataDictionary, DictionaryEntity, normalize_lookup

Offered = Mapping[str, EntityMetadata]

_INTEGERS = frozenset({"Edm.Int16", "Edm.Int32", "Edm.Int64", "Edm.Decimal"})
# A change of the children shows in these fields of their parent, even if its time of change stays.
_WATCHED = ("PhotosChangeTimestamp", "PhotosCount")


@dataclass(frozen=True)
class ChildForm:
    name: str
    entity: DictionaryEntity
    select: tuple[str, ...]
    member: str
    counted_by: str
    key_fields: tuple[str, ...]  # of the child, for the key of its parent
    name_fields: tuple[str, ...]  # of the child, for the entity of its parent
    expand: str = ""  # the item of `$expand`; empty if the member is a field
    field: str = ""  # the item of `$select`; empty if the member is expanded


@dataclass(frozen=True)
class EntityForm:
    """How to read one entity set. The defaults are those of a source that follows the Data Dictionary."""

    load: Walk = BY_KEYS
    changes: Walk = BY_TIMES
    load_path: str = ""
    load_option: str = ""
    filter: str = ""
    live: str = ""
    modified: str = MODIFICATION_TIMESTAMP
    has_number_key: bool = False
    finds_keys: bool = True
    gone_field: str = ""
    gone_values: frozenset[str] = frozenset()
    watched: tuple[str, ...] = ()
    children: tuple[ChildForm, ...] = ()
    lookups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # names of numbers, by field
    page_size: int = 0  # the most records of a page; 0: as many as the settings ask for

    def key_literal(self, key: str) -> str:
        if self.has_number_key and key.removeprefix("-").isdecimal():
            return key
        return string_literal(key)

    def named(self, name: str, value: Any) -> Any:
        """Return the value of a field with the names of its numbers; an unknown number stays."""
        if not (names := self.lookups.get(name)):
            return value
        if isinstance(value, list):
            return [names.get(str(item), item) for item in value]
        return names.get(str(value), value)

    @property
    def has_key_ranges(self) -> bool:
        """Whether a range of keys can be requested whose order is that of texts, as in the mirror."""
        return self.finds_keys and not self.has_number_key

    def is_gone(self, row: Mapping[str, Any]) -> bool:
        if not self.gone_field or (value := row.get(self.gone_field)) is None:
            return False
        return normalize_lookup(str(value)) in self.gone_values

    @property
    def identity(self) -> list[str]:
        """What, if it changes, makes the records of the mirror incomplete."""
        children = [f"{child.name} {child.expand}{child.field} {child.select}" for child in self.children]
        walk = "" if self.load == BY_KEYS else f"by {self.load}"
        modified = "" if self.modified == MODIFICATION_TIMESTAMP else self.modified
        return [*children, *filter(None, (self.filter, self.live, self.gone_field, walk, modified))]


STANDARD_FORM = EntityForm()


class SourceForms:
    """The forms of all entities of a source; `placed` says where children are, in words."""

    def __init__(
        self, dialect: Dialect, dictionary: DataDictionary, offered: Offered, excluded: Collection[str] = ()
    ) -> None:
        self._dialect, self._dictionary = dialect, dictionary
        self._offered = {name: entity for name, entity in offered.items() if name not in excluded}
        children = {name: child for name, child in dialect.children.items() if name not in excluded}
        self._places = {name: self._place(name, child) for name, child in children.items()}

    def own_sets(self) -> list[str]:
        """Return the entities that are read from sets of their own, in the order of the dictionary."""
        offered = [name for name in self._dictionary.entities if name in self._offered]
        return [name for name in offered if self._places.get(name, (OWN_SET, []))[0] == OWN_SET]

    def given(self) -> set[str]:
        return {*self.own_sets(), *(name for name, (_, parents) in self._places.items() if parents)}

    def child_fields(self, name: str) -> frozenset[str]:
        """Return the fields of an entity that comes with others, empty if the metadata does not say."""
        place, parents = self._places.get(name, (OWN_SET, []))
        return next((self._members(parent, place, name) or frozenset() for parent in parents), frozenset())

    def placed(self, name: str) -> str:
        """Return where an entity comes from: empty for a set of its own or for none."""
        place, parents = self._places.get(name, (OWN_SET, []))
        return f"{name} comes with {', '.join(parents)} ({place})." if parents and place != OWN_SET else ""

    def _place(self, name: str, child: ChildSource) -> tuple[str, list[str]]:
        """Return the first place that the metadata has, and the parents that it is in."""
        for place in child.places:
            if place == OWN_SET and name in self._offered:
                return OWN_SET, [name]
            parents = [of for of in child.of if of in self._offered and self._members(of, place, name) is not None]
            if place != OWN_SET and parents:
                return place, parents
        return "", []

    def _members(self, parent: str, place: str, name: str) -> frozenset[str] | None:
        """Return the fields of a member, None if the metadata does not have it."""
        return self._offered_members(parent, place).get(self._member(parent, place, name))

    def _offered_members(self, parent: str, place: str) -> Mapping[str, frozenset[str]]:
        metadata = self._offered[parent]
        return {EMBEDDED: metadata.embedded, EXPANDED: metadata.navigation}.get(place, {})

    def _member(self, parent: str, place: str, name: str) -> str:
        """Return the name of a member: of its names, old and present, the one that the metadata has."""
        named = self._dictionary.names_of(parent, self._dialect.children[name].member or name)
        return next((member for member in named if member in self._offered_members(parent, place)), named[0])

    def select(self, name: str) -> tuple[str, ...]:
        """Return the mapped fields that an entity set has: the source may reject an unknown one.

        Raise SourceError if it lacks the key or the time of change.
        """
        offered, modified = self._offered[name], self._modified(name)
        key, _, *wanted = self._dictionary.requested_fields(name)
        if key not in offered:
            raise SourceError(f"{name} of the source has no {key}, so it cannot be followed.")
        own = (key, MODIFICATION_TIMESTAMP, *wanted, modified)
        return tuple(dict.fromkeys(field for field in own if field in offered))

    def form(self, name: str) -> EntityForm:
        """Return the form of an entity set; raise SourceError if its time of change is missing."""
        dialect, offered, entity = self._dialect, self._offered[name], self._dictionary.entities[name]
        load, changes = dialect.walk_of(name)
        children = tuple(self._children(name))
        gone = dialect.gone if dialect.gone is not None and dialect.gone.field in offered else None
        return EntityForm(
            load=load,
            changes=changes,
            load_path=dialect.load_path,
            load_option=dialect.load_option,
            filter=dialect.required_filter,
            live=dialect.live if gone else "",
            modified=self._modified(name),
            has_number_key=offered.fields.get(entity.key, "") in _INTEGERS,
            finds_keys=dialect.finds_keys(name, entity.key),
            gone_field=gone.field if gone else "",
            gone_values=frozenset(map(normalize_lookup, gone.among)) if gone else frozenset(),
            watched=tuple(field for field in _WATCHED if field in offered) if children else (),
            children=children,
            lookups=offered.lookups if dialect.lookups == BY_NUMBERS else {},
            page_size=dialect.page_size_of(name, 1_000_000),
        )

    def _modified(self, name: str) -> str:
        wanted = self._dialect.modified
        if (found := next((field for field in wanted if field in self._offered[name]), None)) is None:
            raise SourceError(f"{name} of the source has no {' or '.join(wanted)}, so it cannot be followed.")
        return found

    def _children(self, parent: str) -> list[ChildForm]:
        return [
            self._child(name, parent, place)
            for name, (place, parents) in self._places.items()
            if parent in parents and place != OWN_SET
        ]

    def _child(self, name: str, parent: str, place: str) -> ChildForm:
        source, entity = self._dialect.children[name], self._dictionary.entities[name]
        offered = self._members(parent, place, name) or frozenset()
        wanted, entities = self._dictionary.requested_fields(name), self._dictionary.entities
        select = tuple(field for field in wanted if field in offered) or wanted
        member = self._member(parent, place, name)
        options = [f"$select={','.join(select)}"] if source.options and offered else []
        options += [f"$top={source.top}"] if source.top else []
        expand = f"{member}({';'.join(options)})" if options else member
        return ChildForm(
            name,
            entity,
            select,
            member,
            source.counted_by,
            key_fields=tuple(key for key, of in entity.part_of.items() if of == parent or of not in entities),
            name_fields=tuple(of for of in entity.part_of.values() if of not in entities),
            expand=expand if place == EXPANDED else "",
            field=member if place == EMBEDDED else "",
        )


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
# Listings without these are wrong or incomplete in a way that nobody would notice.
_FATAL = frozenset({"media", "open-houses", DELETIONS, LISTINGS})
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
    hint = f" Is {dialect.required_filter} right?" if dialect.required_filter else ""
    return f"The source returned no Property.{hint}"


def _accept(kind: str) -> str:
    return f" If that is intended, give --without {kind}." if kind in _FATAL else ""
