"""The mapping between the RESO Data Dictionary and our fields: the structs of `reso.toml`."""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import msgspec

# On every entity: the source's time of the last change.
MODIFICATION_TIMESTAMP = "ModificationTimestamp"


class ValueSource(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"among": "is", "within": "in"}
):
    """One source of a value; the comments of `reso.toml` describe the forms. A copy has `field` alone."""

    field: str | None = None
    among: tuple[str, ...] | None = None
    join: tuple[str, ...] | None = None
    key: str | None = None
    uuid: str | None = None
    of: str | None = None
    within: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid combination of members."""
        given = {name for name in self.__struct_fields__ if getattr(self, name) is not None}
        if given not in ({"field"}, {"field", "among"}, {"join"}, {"key"}, {"uuid"}, {"of", "within", "field"}):
            raise ValueError("give one of: field; field and is; join; key; uuid; of, in and field")

    @property
    def is_copy(self) -> bool:
        """Whether it copies the value of a field."""
        return self.field is not None and self.among is None and self.of is None

    @property
    def own_fields(self) -> tuple[str, ...]:
        """The fields of the entity itself that it reads."""
        if self.join is not None:
            return self.join
        return tuple(name for name in (self.of or self.field, self.key, self.uuid) if name is not None)


_SourceSpec = str | ValueSource | tuple[str | ValueSource, ...]


DictionaryType = Literal["Collection", "DateTimeOffset", "Decimal", "Int64"]


class DictionaryEntity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entity of the Data Dictionary, and its mapping to our resources.

    `fields` is keyed by our names, `features` by display name, `status` and `type` by the source's spelling;
    `refers_to` and `part_of` are keyed by the field that holds a key; their values name an entity, in `part_of` also a
    field that names it. Lookups of values in another entity are added to `refers_to`. `filter` is the OData
    filter of the records to read. `types` are the types of fields that are not those of ours, by the fields' names.
    """

    key: str
    aliases: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    fields: dict[str, _SourceSpec] = {}
    features: dict[str, str] = {}
    status: dict[str, str] = {}
    type: dict[str, int] = {}
    types: dict[str, DictionaryType] = {}
    refers_to: dict[str, str] = {}
    part_of: dict[str, str] = {}
    inactive: ValueSource | None = None
    not_public: ValueSource | None = None
    source_agent_id: _SourceSpec = ()
    filter: str = ""

    def sources_for(self, field: str) -> tuple[ValueSource, ...]:
        """Return the sources of one of our fields; the first with a value counts."""
        return _as_sources(self.fields.get(field, ()))

    @property
    def source_agent_id_sources(self) -> tuple[ValueSource, ...]:
        """The sources of the identifier that an agent has in the source system."""
        return _as_sources(self.source_agent_id)

    @property
    def value_sources(self) -> Iterator[ValueSource]:
        """Every value source of the entity."""
        for spec in (*self.fields.values(), self.source_agent_id):
            yield from _as_sources(spec)
        yield from (value for value in (self.inactive, self.not_public) if value is not None)


def _as_sources(spec: _SourceSpec) -> tuple[ValueSource, ...]:
    items = spec if isinstance(spec, tuple) else (spec,)
    return tuple(ValueSource(field=item) if isinstance(item, str) else item for item in items)


class DataDictionary(msgspec.Struct, frozen=True, dict=True):
    """All entities by name, and the private fields, which are never requested."""

    entities: dict[str, DictionaryEntity]
    private: frozenset[str]

    def requested_fields(self, entity: str) -> tuple[str, ...]:
        """Return the fields to request from a source, the key and the time of change first."""
        declared = self.entities[entity]
        own = [name for value in declared.value_sources for name in value.own_fields]
        of_others = [
            value.field
            for other in self.entities.values()
            for value in other.value_sources
            if value.within == entity and value.field is not None
        ]
        names = (declared.key, MODIFICATION_TIMESTAMP, *declared.also, *own, *declared.features.values(), *of_others)
        return tuple(dict.fromkeys(names))

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any declaration."""
        return hashlib.sha256(msgspec.json.encode(self.entities, order="deterministic")).hexdigest()[:16]

    def entity_for(self, alias: str) -> str:
        """Return the name of the entity of a resource; raise KeyError if it has none."""
        for name, entity in self.entities.items():
            if alias in entity.aliases:
                return name
        raise KeyError(alias)
