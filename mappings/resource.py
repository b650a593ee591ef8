"""A resource: the declaration from which index body, views, schemas and validation derive."""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from zlib import crc32

from mappings.fields import RULE, Field, TextForm, View, is_identifier, underscore
from mappings.search_fields import HISTORY_FIELDS, SYSTEM_FIELDS, SearchField
from mappings.visibility import (
    WHOLE_CONTENT,
    DisplayLicence,
    ShownContent,
    guarded_members,
    restricted_contents,
    shown_content,
)


class NameOf(NamedTuple):
    """A member with the name of the record that another one, `reference`, identifies in the resource `target`."""

    member: str
    reference: str
    target: str


class ChangeGroup(NamedTuple):
    """Members of which the change feed says that some have changed, and search fields that count as such.

    `remembered` are the members whose values before the last change are kept. `guard` is the field group that a key
    needs to see the members, empty for none.
    """

    name: str
    members: tuple[str, ...] = ()
    search_fields: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    guard: str = ""

    @property
    def number(self) -> int:
        """The number that documents have for the group. It depends on the name alone, and no two are equal."""
        return crc32(self.name.encode()) % _GROUP_NUMBERS + 1


_GROUP_NUMBERS = 1021
# The group of all members that no other group has.
DETAILS = "details"


@dataclass(frozen=True, kw_only=True, eq=False)
class Resource:
    """The fields of a record, the alias of its index, and its search fields.

    `fields` are the public members in the contract's order; `search_fields` are what the resource indexes besides
    `SYSTEM_FIELDS`; `timestamps` maps, for `timestamps_only`, each returned member to its search field;
    `volatile` are members whose change alone is not an update; `address` are the members that keys with a display
    licence see only of records whose address may be displayed (`mappings.visibility`); `envelope_members` are the
    members of the source's envelope that belong to this resource. `names` are filled where a source lacks them, and so
    is the time zone of open houses, `zone_of`, which is a member of the envelope. `changes` are the groups by which the
    change feed names changes, besides one for each guard, and one for the rest.
    """

    name: str
    alias: str
    identifier: str
    fields: tuple[Field, ...]
    search_fields: tuple[SearchField, ...] = ()
    timestamps: dict[str, str] = field(default_factory=dict)
    volatile: frozenset[str] = frozenset()
    address: frozenset[str] = frozenset()
    envelope_members: frozenset[str] = frozenset()
    names: tuple[NameOf, ...] = ()
    zone_of: NameOf | None = None
    changes: tuple[ChangeGroup, ...] = ()

    @cached_property
    def change_groups(self) -> dict[int, ChangeGroup]:
        """All groups by which changes are named, by number; each member is in one of them."""
        guards = dict.fromkeys(field.group for field in self.guarded)
        guarded = [
            ChangeGroup(guard, tuple(field.name for field in self.guarded if field.group == guard), guard=guard)
            for guard in guards
        ]
        named = [*self.changes, *guarded]
        known = {name for group in named for name in group.members} | self.volatile
        rest = tuple(field.name for field in self.stored if field.name not in known)
        return {group.number: group for group in (*named, ChangeGroup(DETAILS, rest))}

    @property
    def filled(self) -> tuple[NameOf, ...]:
        """What other records fill."""
        return (*self.names, self.zone_of) if self.zone_of else self.names

    @cached_property
    def identifier_form(self) -> TextForm | None:
        return next(field.form for field in self.fields if field.name == self.identifier)

    @property
    def identifier_rule(self) -> str:
        """What an identifier must be, without a full stop."""
        return self.identifier_form.rule if self.identifier_form else RULE

    def canonical_identifier(self, text: str) -> str | None:
        """Return an identifier as it is stored, None if a record may not have it."""
        canonical = self.identifier_form.canonical(text) if self.identifier_form else text
        return canonical if canonical is not None and is_identifier(canonical) else None

    @property
    def title(self) -> str:
        """The resource in a sentence, for example `sold listing`."""
        return underscore(self.name).replace("_", " ")

    def view(self, view: View) -> tuple[Field, ...]:
        """Return the fields of a view, in the contract's order."""
        return tuple(member for member in self.fields if view in member.views)

    @cached_property
    def flags(self) -> dict[View, dict[str, tuple[Field, ...]]]:
        return {view: self._flags_of(view) for view in View}

    def _flags_of(self, view: View) -> dict[str, tuple[Field, ...]]:
        flagged: dict[str, tuple[Field, ...]] = {}
        for member in self.view(view):
            if member.flag is not None and view in member.flag.views:
                flagged[member.flag.parameter] = (*flagged.get(member.flag.parameter, ()), member)
        return flagged

    @cached_property
    def stored(self) -> tuple[Field, ...]:
        """The members of the stored record: those of the index view in order, then those of the show view alone."""
        return self.view(View.INDEX) + tuple(member for member in self.fields if View.INDEX not in member.views)

    @cached_property
    def exact_names(self) -> frozenset[str]:
        """The members that the compatible profile shows exactly; if there are any, documents have `exact`."""
        return frozenset(member.name for member in self.stored if member.is_shown_exact)

    @cached_property
    def guarded(self) -> tuple[Field, ...]:
        return guarded_members(self.stored, self.volatile)

    @cached_property
    def restricted_contents(self) -> tuple[ShownContent, ...]:
        """The content hashes that are shown to keys without some field groups."""
        return restricted_contents(self.guarded)

    @cached_property
    def address_contents(self) -> tuple[ShownContent, ...]:
        """The content hashes without the address, of records whose address is hidden from some keys."""
        contents = (WHOLE_CONTENT, *self.restricted_contents) if self.address else ()
        return tuple(ShownContent(content.hidden | self.address) for content in contents)

    @cached_property
    def address_fields(self) -> frozenset[str]:
        return frozenset(field.name for field in self.search_fields if not self.address.isdisjoint(field.sources))

    def shown_content(self, withheld: Collection[str], display: DisplayLicence | None = None) -> ShownContent:
        """Return the content hash for a key that may not see the field groups `withheld`, with a display licence."""
        shown = shown_content(self.guarded, withheld)
        return shown.with_optional(self.address) if display else shown

    @cached_property
    def own_fields(self) -> tuple[SearchField, ...]:
        contents = (*self.restricted_contents, *self.address_contents)
        return (
            self.search_fields
            + HISTORY_FIELDS
            + tuple(field for content in contents for field in content.search_fields)
        )

    @cached_property
    def indexed_fields(self) -> tuple[SearchField, ...]:
        return SYSTEM_FIELDS + self.own_fields
