"""The mapping between the RESO Data Dictionary and our fields: `reso.toml`, with the overrides of an MLS.

Overrides are merged entry by entry; errors name the invalid entry. Lookup values are compared in a normal form, so that
`ActiveUnderContract` equals `Active Under Contract`.
"""

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any, Literal, get_type_hints

import msgspec

from mappings import RESOURCES
from mappings.history import DICTIONARY_FIELDS
from mappings.listing import PROPERTY_TYPES, STATUSES

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
        return self.field is not None and self.among is None and self.of is None

    @property
    def own_fields(self) -> tuple[str, ...]:
        if self.join is not None:
            return self.join
        return tuple(name for name in (self.of or self.field, self.key, self.uuid) if name is not None)


_SourceSpec = str | ValueSource | tuple[str | ValueSource, ...]


DictionaryType = Literal["Collection", "DateTimeOffset", "Decimal", "Int64"]


class DictionaryEntity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entity of the Data Dictionary, and its mapping to our resources.

    `fields` and `history` are keyed by our names, `features` by display name, `status` and `type` by the source's
    spelling; `refers_to` and `part_of` are keyed by the field that holds a key; their values name an entity, in
    `part_of` also a field that names it. Lookups of values in another entity are added to `refers_to`. `filter` is the
    OData filter of the records to read. `types` are the types of fields that are not those of ours, by their names.
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
    time_zone: _SourceSpec = ()
    history: dict[str, _SourceSpec] = {}
    filter: str = ""

    def sources_for(self, field: str) -> tuple[ValueSource, ...]:
        """Return the sources of one of our fields; the first with a value counts."""
        return _as_sources(self.fields.get(field, ()))

    @property
    def source_agent_id_sources(self) -> tuple[ValueSource, ...]:
        return _as_sources(self.source_agent_id)

    @property
    def time_zone_sources(self) -> tuple[ValueSource, ...]:
        """Return the sources of the time zone that local times are in."""
        return _as_sources(self.time_zone)

    @property
    def history_sources(self) -> dict[str, tuple[ValueSource, ...]]:
        """The sources of what the source says of earlier states, by the names of `mappings.history`."""
        return {name: _as_sources(spec) for name, spec in self.history.items()}

    @property
    def value_sources(self) -> Iterator[ValueSource]:
        for spec in (*self.fields.values(), *self.history.values(), self.source_agent_id, self.time_zone):
            yield from _as_sources(spec)
        yield from (value for value in (self.inactive, self.not_public) if value is not None)


def _as_sources(spec: _SourceSpec) -> tuple[ValueSource, ...]:
    items = spec if isinstance(spec, tuple) else (spec,)
    return tuple(ValueSource(field=item) if isinstance(item, str) else item for item in items)


class DataDictionary(msgspec.Struct, frozen=True, dict=True):
    """All entities by name, and the private fields, which are never requested.

    `renamed` are the navigation properties that have another name now: of each entity, the old names with the present.
    """

    entities: dict[str, DictionaryEntity]
    private: frozenset[str]
    renamed: dict[str, dict[str, str]] = {}

    def names_of(self, entity: str, navigation: str) -> tuple[str, ...]:
        """Return a navigation property and its other names, old or present."""
        renamed = self.renamed.get(entity, {})
        present = renamed.get(navigation, navigation)
        return tuple(dict.fromkeys((navigation, present, *(old for old, new in renamed.items() if new == present))))

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


def load_dictionary(*overrides: bytes) -> DataDictionary:
    """Return `reso.toml` with the overrides of TOML texts, in turn; raise ValueError with the invalid entry."""
    merged = _parse_toml(files("mappings").joinpath("reso.toml").read_bytes())
    private, renamed = frozenset(merged.pop("private")), merged.pop("renamed")
    for override in overrides:
        merged = _apply_overrides(merged, _parse_toml(override))
    dictionary = DataDictionary(
        {name: _convert_entity(name, table) for name, table in merged.items()}, private, renamed
    )
    _check_dictionary(dictionary)
    return dictionary


def _parse_toml(toml: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(toml.decode())
    except ValueError as error:
        raise ValueError(f"is not valid TOML: {error}") from None


def _convert_entity(name: str, table: dict[str, Any]) -> DictionaryEntity:
    try:
        entity = msgspec.convert(table, DictionaryEntity)
    except msgspec.ValidationError as error:
        raise ValueError(next(_conversion_errors(name, table, DictionaryEntity), f"{name}: {error}")) from None
    looked_up = {
        value.of: value.within for value in entity.value_sources if value.of is not None and value.within is not None
    }
    return msgspec.structs.replace(entity, refers_to={**looked_up, **entity.refers_to})


_SEPARATORS = str.maketrans("", "", " _-/")


@lru_cache(4096)
def normalize_lookup(name: str) -> str:
    """Return a name without case, spaces, underscores, hyphens and slashes."""
    return name.casefold().translate(_SEPARATORS)


def alphanumeric_key(text: str) -> str:
    """Return a text without case, spaces and punctuation."""
    return "".join(character for character in text.casefold() if character.isalnum())


Table = dict[str, Any]

# Tables and members that cannot be overridden.
_FIXED_TABLES = {"private": "the private fields cannot be overridden", "renamed": "the names are the Data Dictionary's"}
_FIXED_MEMBERS = {
    "aliases": "the resources of an entity cannot be overridden",
    "types": "the types are those of the Data Dictionary",
}


def _exact(name: str) -> object:
    return name


def _normalize_slashed(name: str) -> object:
    return tuple(normalize_lookup(part) for part in name.split("/"))


# Tables that are merged entry by entry, and the normal form by which two keys are the same.
_ENTRY_NORMALIZERS: dict[str, Callable[[str], object]] = {
    "fields": _exact,
    "history": _exact,
    "features": _exact,
    "status": normalize_lookup,
    "type": _normalize_slashed,
}
# Where an empty string removes an entry; in `status` it means that a record is not served.
_REMOVABLE = ("fields", "history", "features", "type")
_TYPE_NAMES = {"`": "", "object": "table", "array": "list", "str": "text", "int": "number"}


def _apply_overrides(base: Table, given: Table) -> Table:
    """Return the tables of all entities with the overrides applied; raise ValueError for an invalid override."""
    _refuse_fixed("", given, _FIXED_TABLES)
    if unknown := given.keys() - base.keys():
        raise ValueError(f"{', '.join(sorted(unknown))}: is not an entity: give one of {', '.join(base)}")
    return {name: _merge_entity(name, table, given.get(name, {})) for name, table in base.items()}


def _refuse_fixed(path: str, given: Table, fixed: dict[str, str]) -> None:
    for name in fixed.keys() & given.keys():
        raise ValueError(f"{path}{name}: {fixed[name]}")


def _merge_entity(name: str, base: Table, given: object) -> Table:
    table = _require_table(name, given)
    _refuse_fixed(f"{name}.", table, _FIXED_MEMBERS)
    merged = {**base, **table}
    for member, identity in _ENTRY_NORMALIZERS.items():
        if member in merged:
            path, is_removable = f"{name}.{member}", member in _REMOVABLE
            entries = _merge_entries(path, base.get(member, {}), _require_table(path, table.get(member, {})), identity)
            merged[member] = {key: value for key, value in entries.items() if value != "" or not is_removable}
    if isinstance(table.get("also"), list):
        merged["also"] = [*base.get("also", []), *table["also"]]
    return merged


def _require_table(path: str, given: object) -> Table:
    if not isinstance(given, dict):
        raise ValueError(f"{path}: is {given!r}, not a table")  # noqa: TRY004 - the file is invalid, not the program
    return given


def _merge_entries(path: str, base: Table, given: Table, identity: Callable[[str], object]) -> Table:
    """Return the base entries with the given ones, which replace entries under another spelling too."""
    names: dict[object, str] = {}
    for name in given:
        if (other := names.setdefault(identity(name), name)) is not name:
            raise ValueError(f"{path}.{name}: is the same as {other}")
    return {name: value for name, value in base.items() if name in given or identity(name) not in names} | given


def _conversion_errors(name: str, table: Table, kind: type[msgspec.Struct]) -> Iterator[str]:
    hints = get_type_hints(kind)
    for member, value in table.items():
        if member not in hints:
            yield f"{name}.{member}: is not a known field: give one of {', '.join(hints)}"
        elif member in _ENTRY_NORMALIZERS:
            for entry, item in value.items():
                yield from _entry_errors(f"{name}.{member}.{entry}", {entry: item}, hints[member])
        else:
            yield from _entry_errors(f"{name}.{member}", value, hints[member])


def _entry_errors(path: str, value: object, kind: object) -> Iterator[str]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at ")[0]
        for word, label in _TYPE_NAMES.items():
            reason = reason.replace(word, label)
        yield f"{path}: {reason[0].lower()}{reason[1:]}"


# Anything else in `$select` could request more than one field.
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}
# Fields that follow from a table or from another field.
_DERIVED_FIELDS = {"Status": "status", "PropertyType": "type", "OnMarket": "status"}


def _check_dictionary(dictionary: DataDictionary) -> None:
    """Raise ValueError for the first invalid entry."""
    private = {name.casefold() for name in dictionary.private}
    for name, entity in dictionary.entities.items():
        _check_names(name, entity, private)
        for path, value in _declared_sources(name, entity):
            if value.within is not None and value.within not in dictionary.entities:
                raise ValueError(f"{path}: {value.within} is not one of {', '.join(dictionary.entities)}")
        _check_fields(name, entity)
        _check_tables(name, entity)


def _check_names(name: str, entity: DictionaryEntity, private: set[str]) -> None:
    if forbidden := {word.casefold() for word in _NAME.findall(entity.filter)} & private:
        raise ValueError(f"{name}.filter: {', '.join(sorted(forbidden))} is private and is never requested")
    for path, field in _source_fields(name, entity):
        if _NAME.fullmatch(field) is None:
            raise ValueError(f"{path}: {field!r} is not a valid field name")
        if field.casefold() in private:
            raise ValueError(f"{path}: {field} is private and is never requested")


def _source_fields(name: str, entity: DictionaryEntity) -> Iterator[tuple[str, str]]:
    yield f"{name}.key", entity.key
    yield from ((f"{name}.also", field) for field in entity.also)
    yield from ((f"{name}.features.{shown}", field) for shown, field in entity.features.items())
    for path, value in _declared_sources(name, entity):
        yield from ((path, field) for field in value.own_fields)
        if value.of is not None and value.field is not None:
            yield path, value.field
    # After the values, because the fields that they look up are in `refers_to` too.
    for table in ("refers_to", "part_of"):
        yield from ((f"{name}.{table}", field) for entry in getattr(entity, table).items() for field in entry)


def _declared_sources(name: str, entity: DictionaryEntity) -> Iterator[tuple[str, ValueSource]]:
    for field in entity.fields:
        yield from ((f"{name}.fields.{field}", value) for value in entity.sources_for(field))
    for field, sources in entity.history_sources.items():
        yield from ((f"{name}.history.{field}", value) for value in sources)
    yield from ((f"{name}.source_agent_id", value) for value in entity.source_agent_id_sources)
    yield from ((f"{name}.time_zone", value) for value in entity.time_zone_sources)
    for member in ("inactive", "not_public"):
        if (value := getattr(entity, member)) is not None:
            yield f"{name}.{member}", value


def _check_fields(name: str, entity: DictionaryEntity) -> None:
    resources = [_BY_ALIAS[alias] for alias in entity.aliases]
    ours = {field.name: field for resource in resources for field in resource.stored}
    for field in entity.fields:
        if field not in ours:
            raise ValueError(
                f"{name}.fields.{field}: is not a field of {' or '.join(entity.aliases) or 'any resource'}"
            )
        if ours[field].members:
            raise ValueError(f"{name}.fields.{field}: consists of objects, which no source field has")
        if "Status" in ours and field in _DERIVED_FIELDS:
            raise ValueError(f"{name}.fields.{field}: follows from [{name}.{_DERIVED_FIELDS[field]}]")
    known = [field.name for field in DICTIONARY_FIELDS]
    for field in entity.history.keys() - {*known}:
        raise ValueError(f"{name}.history.{field}: is not one of {', '.join(known)}")
    for resource in resources:
        _check_identifier(f"{name}.fields.{resource.identifier}", entity, resource.identifier)


def _check_identifier(path: str, entity: DictionaryEntity, identifier: str) -> None:
    """Check that an identifier derives from the key alone: references and deletions contain nothing else."""
    values = entity.sources_for(identifier)
    if len(values) != 1 or entity.key not in {values[0].key, values[0].uuid}:
        raise ValueError(f'{path}: give {{ key = "{entity.key}" }} or {{ uuid = "{entity.key}" }}')


def _check_tables(name: str, entity: DictionaryEntity) -> None:
    for spelling, status in entity.status.items():
        if status and status not in STATUSES:
            raise ValueError(f"{name}.status.{spelling}: {status!r} is not one of {', '.join(STATUSES)}")
    for spelling, number in entity.type.items():
        if number not in PROPERTY_TYPES:
            raise ValueError(f"{name}.type.{spelling}: {number} is not in the legend of property_types")
