"""The values of a document's search fields that are read from record and envelope."""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import msgspec

from indexer.documents.envelope import epoch_milliseconds
from indexer.documents.record_normalizer import ExactValues, member_getter
from mappings import Resource
from mappings.fields import FieldKind
from mappings.record_type import record_type
from mappings.search_fields import Conversion, FieldOrigin, SearchField
from mappings.stored_document import add_search_fields, exact_values, split_record
from mappings.values.numbers import number_in

Extract = Callable[[Any], object]

_EMPTY: tuple[object, ...] = (None, "", [], {})
_UNIX_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_DAY_MILLISECONDS = 86_400_000
_NUMBERS = frozenset({FieldKind.INTEGER, FieldKind.NUMBER})
# The conversions whose fields documents of 1.0.0 lack.
_ADDED = frozenset({Conversion.EXACT, Conversion.FEATURE, Conversion.COUNT})


class SearchValues:
    """Reads the search fields of one resource."""

    def __init__(self, resource: Resource, fields: Iterable[SearchField]) -> None:
        """Compile what follows from the declarations."""
        declared = [field for field in fields if field.conversion is not Conversion.FEATURE]
        numbers = {member.name for member in resource.stored if member.kind in _NUMBERS}
        plain = [field for field in declared if _is_plain(field, numbers)]
        derived = [field for field in declared if not _is_plain(field, numbers)]
        self._plain = member_getter([path for field in plain for path in _paths(field)])
        self._derived = [_derivation(field) for field in derived]
        featured = [field for field in fields if field.conversion is Conversion.FEATURE]
        self._features = {field.feature: at for at, field in enumerate(featured)}
        self.names = tuple(field.name for field in (*plain, *derived, *featured))
        self._exact_at = [
            (field.sources[0], at)
            for at, field in enumerate((*plain, *derived))
            if field.conversion is Conversion.EXACT
        ]

    def __call__(self, envelope: Any, exact: ExactValues) -> list[object]:
        """Return the values in the order of `names`, None for none; `exact` is what numbers were that are rounded."""
        own: list[object] = [*self._plain(envelope), *[derive(envelope) for derive in self._derived]]
        if exact:
            for name, at in self._exact_at:
                own[at] = exact.get(name, own[at])
        return own + self._feature_values(envelope.record) if self._features else own

    def _feature_values(self, record: Any) -> list[object]:
        found: list[Any] = [None] * len(self._features)
        for item in record.PropertyFeatures or ():
            at = self._features.get(item.PropertyFeatureName)
            if at is not None and (values := item.PropertyFeatureValues):
                found[at] = [*(found[at] or ()), *values]
        return found


class MissingValues:
    """Adds the search fields that documents of earlier versions lack, when they are copied."""

    def __init__(self, resource: Resource) -> None:
        """Compile what follows from the declaration."""
        fields = [field for field in resource.search_fields if field.origin is FieldOrigin.RECORD]
        added = [field.name for field in fields if field.conversion in _ADDED]
        self._added = re.compile(rb',"(?:%b)":' % "|".join(added).encode()) if added else None
        self._values = SearchValues(resource, fields)
        self._decode = msgspec.json.Decoder(record_type(resource)).decode

    def complete(self, source: bytes) -> bytes:
        """Return a stored document, with its search fields if it has none of those that were added."""
        head, record = split_record(source)
        if self._added is None or not record or self._added.search(head):
            return source
        return add_search_fields(source, b"".join(self._encoded(head, record)))

    def _encoded(self, head: bytes, record: bytes) -> Iterator[bytes]:
        """Yield the search fields that a document lacks, each after a comma."""
        exact = msgspec.json.decode(exact_values(head) or b"{}")
        values = self._values(SimpleNamespace(record=self._decode(record)), exact)
        for name, value in zip(self._values.names, values, strict=True):
            if value is not None and b'"%b":' % name.encode() not in head:
                yield b',"%b":%b' % (name.encode(), msgspec.json.encode(value))


@cache
def missing_values(resource: Resource) -> MissingValues:
    """Return the values of a resource, compiled once."""
    return MissingValues(resource)


def _paths(field: SearchField) -> list[str]:
    prefix = "record." if field.origin is FieldOrigin.RECORD else ""
    return [prefix + source for source in field.sources]


def _is_plain(field: SearchField, numbers: set[str]) -> bool:
    """Whether the field's value is that of its only source; null means no value."""
    if field.conversion is Conversion.EXACT:
        return field.sources[0] in numbers
    return len(field.sources) == 1 and field.conversion is Conversion.VERBATIM


def _derivation(field: SearchField) -> Extract:
    """Return the function that computes a field from an envelope; None means no value."""
    return partial(_CONVERSIONS[field.conversion], attrgetter(*_paths(field)))


def _presence(read: Extract, envelope: Any) -> bool:
    return read(envelope) not in _EMPTY


def _refusal(read: Extract, envelope: Any) -> bool | None:
    return True if read(envelope) is False else None


def _day(read: Extract, envelope: Any) -> int | None:
    value = read(envelope)
    return (value.toordinal() - _UNIX_EPOCH_ORDINAL) * _DAY_MILLISECONDS if isinstance(value, dt.date) else None


def _timestamp(read: Extract, envelope: Any) -> int | None:
    value = read(envelope)
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if isinstance(value, dt.datetime):
        return epoch_milliseconds(value)
    return value * 1000 if isinstance(value, int) else None


def _values(read: Callable[[Any], tuple[object, ...]], envelope: Any) -> list[object] | None:
    return [value for value in read(envelope) if value is not None] or None


def _number(read: Extract, envelope: Any) -> float | None:
    value = read(envelope)
    return None if value is None else number_in(value)


def _count(read: Extract, envelope: Any) -> int | None:
    value = read(envelope)
    return len(value) or None if isinstance(value, list) else None


_CONVERSIONS: dict[Conversion, Callable[[Any, Any], object]] = {
    Conversion.VERBATIM: _values,
    Conversion.PRESENCE: _presence,
    Conversion.REFUSAL: _refusal,
    Conversion.DAY: _day,
    Conversion.TIMESTAMP: _timestamp,
    Conversion.EXACT: _number,
    Conversion.COUNT: _count,
}
