"""A resource: one declaration from which index body, field lists, underscored names, schemas and checks are derived."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from mappings.fields import Field, View
from mappings.naming import underscore
from mappings.search import BOOKKEEPING, SearchField


@dataclass(frozen=True, kw_only=True)
class Resource:
    """What a record is, where it is kept and what it is found by.

    `fields` are the public members in the contract's order; `filters` are the resource's own search fields;
    `timestamps` names, for `timestamps_only`, each answered member and the search field that holds it;
    `volatile` are members that change without the record's content changing.
    """

    name: str
    alias: str
    identifier: str
    fields: tuple[Field, ...]
    filters: tuple[SearchField, ...] = ()
    timestamps: dict[str, str] = field(default_factory=dict)
    volatile: frozenset[str] = frozenset()
    envelope: frozenset[str] = frozenset()

    def __hash__(self) -> int:
        """Hash by alias, which is unique."""
        return hash(self.alias)

    @property
    def title(self) -> str:
        """The resource in a sentence, for example `sold listing`."""
        return underscore(self.name).replace("_", " ")

    def view(self, view: View) -> tuple[Field, ...]:
        """Return the fields of one variant, in the contract's order."""
        return tuple(member for member in self.fields if view in member.views)

    def flags(self, view: View) -> dict[str, tuple[Field, ...]]:
        """Return, for each flag of a variant, the fields it brings."""
        return self._flags[view]

    @cached_property
    def _flags(self) -> dict[View, dict[str, tuple[Field, ...]]]:
        return {view: self._flags_of(view) for view in View}

    def _flags_of(self, view: View) -> dict[str, tuple[Field, ...]]:
        flagged: dict[str, tuple[Field, ...]] = {}
        for member in self.view(view):
            if member.flag is not None and view in member.flag.views:
                flagged[member.flag.parameter] = (*flagged.get(member.flag.parameter, ()), member)
        return flagged

    @cached_property
    def stored(self) -> tuple[Field, ...]:
        """The members of the stored record: the index variant's in its order, then what only a show gives."""
        return self.view(View.INDEX) + tuple(member for member in self.fields if View.INDEX not in member.views)

    @cached_property
    def search(self) -> tuple[SearchField, ...]:
        """Every indexed field of a document."""
        return BOOKKEEPING + self.filters
