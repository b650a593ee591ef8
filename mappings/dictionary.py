"""What the RESO Data Dictionary calls what we serve: `reso.toml`, and what a map of an MLS replaces in it."""

from __future__ import annotations

import hashlib
import tomllib
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from mappings.dictionary_checks import check
from mappings.dictionary_map import faults, over

if TYPE_CHECKING:
    from collections.abc import Iterator

# Every entity has it: the source's time of the last change.
MODIFIED = "ModificationTimestamp"


class Value(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"among": "is", "within": "in"}
):
    """One way to come to a value; the head of `reso.toml` tells what each means. A copy has `field` alone."""

    field: str | None = None
    among: tuple[str, ...] | None = None
    join: tuple[str, ...] | None = None
    key: str | None = None
    uuid: str | None = None
    of: str | None = None
    within: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for what says too little or too much."""
        said = {name for name in self.__struct_fields__ if getattr(self, name) is not None}
        if said not in ({"field"}, {"field", "among"}, {"join"}, {"key"}, {"uuid"}, {"of", "within", "field"}):
            raise ValueError("give one of: field; field and is; join; key; uuid; of, in and field")

    @property
    def is_copy(self) -> bool:
        """Whether it is the value of a field as it is."""
        return self.field is not None and self.among is None and self.of is None

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of the entity itself that it is made of."""
        if self.join is not None:
            return self.join
        return tuple(name for name in (self.of or self.field, self.key, self.uuid) if name is not None)


_Spelt = str | Value | tuple[str | Value, ...]


class Entity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entity of the Data Dictionary: how it is read, and what becomes of it.

    `fields` are by our names, `features` by the name that is shown, `status` and `type` by the source's spelling;
    `refers_to` and `part_of` are by the field that holds a key, the values name an entity (`part_of`: or a field that
    names it). What a value looks up in another entity is in `refers_to` without being declared there. `filter` is an
    OData filter: what does not match it is not read.
    """

    key: str
    aliases: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    fields: dict[str, _Spelt] = {}
    features: dict[str, str] = {}
    status: dict[str, str] = {}
    type: dict[str, int] = {}
    refers_to: dict[str, str] = {}
    part_of: dict[str, str] = {}
    inactive: Value | None = None
    not_public: Value | None = None
    source_agent_id: _Spelt = ()
    filter: str = ""

    def values(self, field: str) -> tuple[Value, ...]:
        """Return the ways to come to a field of ours, the first that gives a value counts."""
        return _values(self.fields.get(field, ()))

    @property
    def source_agent_ids(self) -> tuple[Value, ...]:
        """The ways to come to the identifier that an agent has at the source."""
        return _values(self.source_agent_id)

    @property
    def wanted(self) -> Iterator[Value]:
        """Every value that is made of the entity."""
        for spelt in (*self.fields.values(), self.source_agent_id):
            yield from _values(spelt)
        yield from (value for value in (self.inactive, self.not_public) if value is not None)


def _values(spelt: _Spelt) -> tuple[Value, ...]:
    each = spelt if isinstance(spelt, tuple) else (spelt,)
    return tuple(Value(field=one) if isinstance(one, str) else one for one in each)


class Dictionary(msgspec.Struct, frozen=True, dict=True):
    """All entities by name, and the fields that are never asked for."""

    entities: dict[str, Entity]
    private: frozenset[str]

    def asked(self, entity: str) -> tuple[str, ...]:
        """Return the fields to ask a source for, the key and the time of change first."""
        declared = self.entities[entity]
        own = [name for value in declared.wanted for name in value.names]
        of_others = [
            value.field
            for other in self.entities.values()
            for value in other.wanted
            if value.within == entity and value.field is not None
        ]
        names = (declared.key, MODIFIED, *declared.also, *own, *declared.features.values(), *of_others)
        return tuple(dict.fromkeys(names))

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal digits that change with anything that is declared."""
        return hashlib.sha256(msgspec.json.encode(self.entities, order="deterministic")).hexdigest()[:16]

    def entity_of(self, alias: str) -> str:
        """Return the name of the entity that a resource of ours is made of; KeyError for one that is made of none."""
        for name, entity in self.entities.items():
            if alias in entity.aliases:
                return name
        raise KeyError(alias)


def read_dictionary(override: bytes = b"") -> Dictionary:
    """Return `reso.toml` with the entries of a TOML text in place of its own; raise ValueError with what is wrong."""
    own = _parsed(files("mappings").joinpath("reso.toml").read_bytes())
    private = frozenset(own.pop("private"))
    merged = over(own, _parsed(override))
    dictionary = Dictionary({name: _entity(name, table) for name, table in merged.items()}, private)
    check(dictionary)
    return dictionary


def _parsed(toml: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(toml.decode())
    except ValueError as error:
        raise ValueError(f"is no TOML: {error}") from None


def _entity(name: str, table: dict[str, Any]) -> Entity:
    try:
        entity = msgspec.convert(table, Entity)
    except msgspec.ValidationError as error:
        raise ValueError(next(faults(name, table, Entity), f"{name}: {error}")) from None
    looked_up = {value.of: value.within for value in entity.wanted if value.of is not None and value.within is not None}
    return msgspec.structs.replace(entity, refers_to={**looked_up, **entity.refers_to})
