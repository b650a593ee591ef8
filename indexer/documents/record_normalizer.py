"""Normalization of every record: whole numbers for integers, valid date-times, forms of texts, [] instead of null."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from indexer.errors import InvalidRecordError
from indexer.reporting.report import RoundedField
from mappings.fields import Field, FieldKind
from mappings.record_type import MAX_SAFE_INTEGER
from mappings.values.text_forms import TextForm

Roundings = dict[str, RoundedField]
# What the members of an object were that are rounded in it, by name.
ExactValues = dict[str, float]


_MAX_SHOWN = 80  # characters of an invalid text


@dataclass(frozen=True)
class NormalizedShape:
    """The members of an object that may need normalizing, derived once from the declaration."""

    integers: tuple[str, ...]
    date_times: tuple[str, ...]
    forms: tuple[tuple[str, TextForm], ...]
    lists: tuple[str, ...]
    single: tuple[tuple[str, NormalizedShape], ...]
    several: tuple[tuple[str, NormalizedShape], ...]

    @property
    def is_empty(self) -> bool:
        """Whether such an object never needs normalizing."""
        return not (self.integers or self.date_times or self.forms or self.lists or self.single or self.several)


def normalized_shape(fields: tuple[Field, ...]) -> NormalizedShape:
    """Return the shape of an object with these members."""
    inner = [(field, normalized_shape(field.members)) for field in fields if field.members]
    return NormalizedShape(
        integers=tuple(field.name for field in fields if field.kind is FieldKind.INTEGER),
        date_times=tuple(field.name for field in fields if field.kind is FieldKind.DATE_TIME),
        forms=tuple((field.name, field.form) for field in fields if field.form is not None),
        lists=tuple(field.name for field in fields if field.kind.is_list),
        single=tuple(
            (field.name, part) for field, part in inner if field.kind is FieldKind.OBJECT and not part.is_empty
        ),
        several=tuple(
            (field.name, part) for field, part in inner if field.kind is FieldKind.OBJECTS and not part.is_empty
        ),
    )


class RecordNormalizer:
    """Normalizes the records of one resource."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        """Derive the shape of records with these members."""
        self._shape = normalized_shape(fields)
        # The strict record type leaves only these to normalize.
        self._top = replace(self._shape, date_times=(), forms=(), single=(), several=())
        self._integers = member_getter(self._top.integers)
        self._lists = member_getter(self._top.lists)

    def normalize(self, record: Any, roundings: Roundings) -> ExactValues:
        """Normalize a record as the source sent it; return, count and raise like `normalize`."""
        return _normalize_record(record, self._shape, roundings)

    def normalize_strict(self, record: Any, roundings: Roundings) -> ExactValues:
        """Normalize a record of the strict type. The common case, nothing to do, is detected without a loop."""
        if float in map(type, self._integers(record)) or None in self._lists(record):
            return _normalize_record(record, self._top, roundings)
        return {}


def member_getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that gets these members as a tuple; `a.b` is member b of member a."""
    if not names:
        return lambda _: ()
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda value: (read(value),)


def _normalize_record(record: Any, shape: NormalizedShape, roundings: Roundings) -> ExactValues:
    try:
        return normalize(record, shape, roundings)
    except InvalidRecordError as error:
        raise InvalidRecordError(f"record.{error.field}", error.reason) from None


def normalize(value: Any, shape: NormalizedShape, roundings: Roundings) -> ExactValues:
    """Normalize an object in place and count the numbers that are rounded; raise InvalidRecordError.

    Return what the object's own numbers were that are rounded, not those of objects within it.
    """
    exact = _round_integers(value, shape.integers, roundings)
    for name in shape.date_times:
        _check_date_time(name, getattr(value, name))
    for name, form in shape.forms:
        setattr(value, name, _formed(name, getattr(value, name), form))
    for name in [name for name in shape.lists if getattr(value, name) is None]:
        setattr(value, name, [])
    for name, part in shape.single:
        member = getattr(value, name)
        if member is not None:
            _normalize_member(name, None, member, part, roundings)
    for name, part in shape.several:
        for index, member in enumerate(getattr(value, name)):
            _normalize_member(name, index, member, part, roundings)
    return exact


def _normalize_member(name: str, index: int | None, member: Any, shape: NormalizedShape, roundings: Roundings) -> None:
    """Normalize a member; its path is formatted only for an error."""
    try:
        normalize(member, shape, roundings)
    except InvalidRecordError as error:
        path = name if index is None else f"{name}[{index}]"
        raise InvalidRecordError(f"{path}.{error.field}", error.reason) from None


def _check_date_time(name: str, text: str | None) -> None:
    """Reject a date-time that does not exist; the decoder has checked its format, and the text is stored as sent."""
    try:
        if text is not None:
            dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRecordError(name, f"is {text!r}, which is not a valid date-time") from None


def _formed(name: str, text: str | None, form: TextForm) -> str | None:
    """Return a text as it is stored, None if it is empty; raise InvalidRecordError if it does not have the form."""
    if not text:
        return None
    canonical = form.canonical(text)
    if canonical is None:
        raise InvalidRecordError(name, f"is {text[:_MAX_SHOWN]!r}: {form.rule}")
    return canonical


def _round_integers(value: Any, names: Sequence[str], roundings: Roundings) -> ExactValues:
    """Make these members whole numbers, and return what those were that had a fraction."""
    exact: ExactValues = {}
    for name in names:
        number = getattr(value, name)
        if number is not None and (type(number) is float or not -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER):
            whole = _whole(name, number)
            setattr(value, name, whole)
            if whole != number:
                exact[name] = number
                _count(name, number, whole, roundings)
    return exact


def _whole(name: str, number: float) -> int:
    """Return a number rounded half up."""
    if not -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER:
        raise InvalidRecordError(name, "is out of range: whole numbers are limited to 2**53")
    floor = math.floor(number)
    return floor + (number - floor >= 0.5)


def _count(name: str, number: float, whole: int, roundings: Roundings) -> None:
    """Count a number that had a fraction."""
    known = roundings.get(name)
    roundings[name] = replace(known, count=known.count + 1) if known else RoundedField(name, 1, number, whole)
