"""The plain fields of a resource, compiled from the dictionary: how each is found in a source record and converted.

An extractor takes a raw value from a record. It returns None if there is no value and raises UnmappableValue if the
value cannot be used. Lookups compare by normalized name, because sources spell the same value differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol
from uuid import UUID, uuid5

from indexer.errors import InvalidRecordError
from indexer.reso.mapping.values import (
    UnmappableValue,
    ValueConverter,
    converter_for,
    describe_value,
    is_masked,
    is_without_offset,
    limit_searchable,
    to_names,
    to_text,
)
from mappings import Resource
from mappings.data_dictionary import DictionaryEntity, ValueSource, normalize_lookup
from mappings.fields import CONTROL_CHARACTERS, MAX_BYTES, MAX_CHARACTERS, FieldKind, is_identifier


def normalize_names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(normalize_lookup(name) for name in names)


def normalize_keys(declared: Mapping[str, str]) -> dict[str, str]:
    return {normalize_lookup(name): value for name, value in declared.items()}


class PropertyTypeLookup:
    """A table of property types, whose names are `type` or `type/subtype`."""

    def __init__(self, declared: Mapping[str, int]) -> None:
        self._numbers: dict[tuple[str, str], int] = {
            (normalize_lookup(name), ""): number for name, number in declared.items()
        }
        for name, number in declared.items():
            parts = name.split("/")
            for cut in range(1, len(parts)):
                pair = (normalize_lookup("/".join(parts[:cut])), normalize_lookup("/".join(parts[cut:])))
                self._numbers.setdefault(pair, number)

    def find(self, type_name: str, subtypes: Iterable[str]) -> int | None:
        """Return the number of the first known type/subtype pair, else of the type, None for an unknown type."""
        main = normalize_lookup(type_name)
        for subtype in subtypes:
            if (number := self._numbers.get((main, normalize_lookup(subtype)))) is not None:
                return number
        return self._numbers.get((main, ""))


# Characters that `mappings.fields` forbids, and the percent sign of the escapes.
_FORBIDDEN = re.compile(f"[{CONTROL_CHARACTERS} /%]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UUID = re.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
# The namespace of name-based UUIDs: changing it would give every agent and team a new identity.
NAMESPACE = UUID("7b53ff88-fbe3-4584-ab3d-69c23a4f1fb3")


def key_text(value: object) -> str | None:
    """Return a key as text, None for an absent or masked one and for a value that is not a key."""
    if isinstance(value, str):
        return None if not value.strip() or is_masked(value) else value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


class IdentifierFactory:
    """Makes the identifiers of one source; sources whose keys may collide need different prefixes."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        # Cached because many listings share few agents and offices.
        self.plain = lru_cache(65_536)(self._plain)
        self.uuid = lru_cache(65_536)(self._uuid)

    def _plain(self, key: str) -> str:
        """Return prefix and key, with forbidden characters percent-encoded; raise InvalidRecordError if too long."""
        identifier = _FORBIDDEN.sub(_percent, self._prefix + key)
        identifier = identifier.replace(".", "%2E") if identifier in {".", ".."} else identifier
        if not is_identifier(identifier):
            length = f"{len(identifier)} characters, not 1 to {MAX_CHARACTERS}"
            if len(identifier) <= MAX_CHARACTERS and identifier:
                length = f"{len(identifier.encode())} bytes, more than {MAX_BYTES}"
            raise InvalidRecordError("", f"is {describe_value(key)}: as an identifier it has {length}")
        return identifier

    def _uuid(self, key: str) -> str:
        """Return the key in lower case if it is a UUID and there is no prefix, else a name-based UUID of both."""
        if not self._prefix and _UUID.fullmatch(key):
            return key.lower()
        return str(uuid5(NAMESPACE, _SURROGATE.sub(_percent, self._prefix + key)))


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


RecordAndEnvelope = tuple[dict[str, object], dict[str, object]]


class SourceRecords(Protocol):
    """The records of a source, by entity and field names of the Data Dictionary."""

    def record(self, entity: str, key: str) -> dict[str, Any] | None:
        """Return the record with a key, None if it is missing."""

    def parts(self, entity: str, of: str, key: str) -> list[dict[str, Any]]:
        """Return an entity's records that are part of the record `key` of the entity `of`, sorted by key."""


class MappingContext:
    """A record, access to its parts and related records, the values left out with reasons, and those of no known zone.

    `assumed` are triples of a field, what is taken for granted of its times, and the time as it was written.
    """

    __slots__ = ("_records", "_related", "assumed", "entity", "key", "omitted", "record")

    def __init__(self, records: SourceRecords, entity: str, key: str, record: dict[str, Any]) -> None:
        self._records = records
        self._related: dict[tuple[str, str], dict[str, Any]] = {}
        self.entity = entity
        self.key = key
        self.record = record
        self.omitted: list[tuple[str, str]] = []
        self.assumed: list[tuple[str, str, str]] = []

    def convert(self, field: str, converter: Callable[[Any], Any], value: object) -> Any:
        """Return the converted value, or the usable part of it; record what is left out under the field's name."""
        try:
            return converter(value)
        except UnmappableValue as error:
            self.omitted.append((field, error.reason))
            return error.partial

    def normalized_text(self, field: str, value: object) -> str | None:
        """Return a normalized text, empty if there is none; None, and recorded as omitted, if it is unmappable."""
        try:
            return normalize_lookup(to_text(value) or "")
        except UnmappableValue as error:
            self.omitted.append((field, error.reason))
            return None

    def related(self, entity: str, key: str) -> dict[str, Any]:
        """Return a related record, empty if it is missing."""
        if (entity, key) not in self._related:
            self._related[entity, key] = self._records.record(entity, key) or {}
        return self._related[entity, key]

    def parts(self, entity: str) -> list[dict[str, Any]]:
        """Return an entity's records that are part of this record, sorted by key."""
        return self._records.parts(entity, self.entity, self.key)

    def for_record(self, entity: str, key: str, record: dict[str, Any]) -> MappingContext:
        """Return a context for another record that shares this list of omitted values."""
        context = MappingContext(self._records, entity, key, record)
        context.omitted = self.omitted
        return context


Extractor = Callable[[MappingContext, dict[str, Any]], object]


def build_extractor(value: ValueSource, identifiers: IdentifierFactory) -> Extractor:
    if value.join is not None:
        return _join(value.join)
    if value.key is not None:
        return _identifier(value.key, identifiers.plain)
    if value.uuid is not None:
        return _identifier(value.uuid, identifiers.uuid)
    if value.of is not None and value.within is not None:
        return _related_field(value.of, value.within, str(value.field))
    field = str(value.field)
    return _copy(field) if value.among is None else _among(field, normalize_names(value.among))


def source_field(value: ValueSource) -> str:
    """Return the Data Dictionary field of a value, with the entity's name for a field of a related record."""
    return f"{value.within}.{value.field}" if value.of is not None else value.own_fields[0]


def _copy(field: str) -> Extractor:
    return lambda _, record: record.get(field)


def _join(fields: tuple[str, ...]) -> Extractor:
    def join(context: MappingContext, record: dict[str, Any]) -> str:
        texts = (context.convert(field, to_text, record.get(field)) for field in fields)
        return " ".join(text for text in texts if text is not None)

    return join


def _among(field: str, wanted: frozenset[str]) -> Extractor:
    def is_among(_: MappingContext, record: dict[str, Any]) -> bool | None:
        names = to_names(record.get(field))
        return None if names is None else any(normalize_lookup(name) in wanted for name in names)

    return is_among


def _identifier(field: str, identify: Callable[[str], str]) -> Extractor:
    def identifier(_: MappingContext, record: dict[str, Any]) -> str | None:
        key = _key(record.get(field))
        try:
            return None if key is None else identify(key)
        except InvalidRecordError as error:
            raise UnmappableValue(error.reason) from None

    return identifier


def _related_field(key_field: str, entity: str, field: str) -> Extractor:
    def related_field(context: MappingContext, record: dict[str, Any]) -> object:
        key = context.convert(key_field, _key, record.get(key_field))
        return None if key is None else context.related(entity, key).get(field)

    return related_field


def _key(value: object) -> str | None:
    key = key_text(value)
    if key is None and value is not None and not isinstance(value, str):
        raise UnmappableValue(f"is {describe_value(value)}: not a key")
    return key


class FirstValue:
    """A value with several sources; the first one present is used."""

    def __init__(
        self, values: tuple[ValueSource, ...], convert: ValueConverter, identifiers: IdentifierFactory
    ) -> None:
        self._extractors: list[tuple[str, Extractor]] = [
            (source_field(value), build_extractor(value, identifiers)) for value in values
        ]
        self._convert = convert

    def __call__(self, context: MappingContext) -> object | None:
        """Return the converted value, None if no source has one."""
        for field, extract in self._extractors:
            if (value := self._extract(context, field, extract)) is not None:
                return value
        return None

    def _extract(self, context: MappingContext, field: str, extract: Extractor) -> object | None:
        try:
            value = extract(context, context.record)
        except UnmappableValue as error:
            context.omitted.append((field, error.reason))
            return None  # the partial value may be of another type than our field
        converted: object | None = context.convert(field, self._convert, value)
        return converted


class FieldMapper:
    def __init__(self, resource: Resource, entity: DictionaryEntity, identifiers: IdentifierFactory) -> None:
        fields = [field for field in resource.stored if not field.members and field.name != resource.identifier]
        sources = [(field, entity.sources_for(field.name)) for field in fields]
        copied = {
            field.name: values[0].own_fields[0] for field, values in sources if len(values) == 1 and values[0].is_copy
        }
        converters = _field_converters(resource)
        self._copies = [
            (field.name, copied[field.name], converters[field.name]) for field, _ in sources if field.name in copied
        ]
        self._others = [
            (field.name, FirstValue(values, converters[field.name], identifiers))
            for field, values in sources
            if values and field.name not in copied
        ]
        self._lists = [field.name for field in resource.stored if field.kind.is_list]
        times = {field.name for field in fields if field.kind in {FieldKind.DATE_TIME, FieldKind.UNIX}}
        self._times = {copied[name] for name in copied if name in times}

    def __call__(self, context: MappingContext) -> dict[str, object]:
        mapped: dict[str, object] = {name: [] for name in self._lists}
        get = context.record.get
        for name, field, convert in self._copies:
            value = get(field)
            if value is not None and (converted := context.convert(field, convert, value)) is not None:
                mapped[name] = converted
        for name, extract in self._others:
            if (value := extract(context)) is not None:
                mapped[name] = value
        context.assumed += [
            (field, "without an offset, taken as UTC", describe_value(value))
            for field in self._times
            if is_without_offset(value := get(field))
        ]
        return mapped


def _field_converters(resource: Resource) -> dict[str, ValueConverter]:
    keywords = {
        name for search in resource.search_fields if search.mapping["type"] == "keyword" for name in search.sources
    }
    converters = {field.name: converter_for(field.kind) for field in resource.stored if not field.members}
    return {name: limit_searchable(convert) if name in keywords else convert for name, convert in converters.items()}
