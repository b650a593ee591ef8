"""Normalization of records: whole numbers for integers, valid date-times, forms of texts, [] instead of null.

Then the values of the contract: status, market and property type of listings, objects of companies, times of the last
change that a source leaves out. Values without a declared shape have a bounded depth, or they could exhaust the stack
of their readers.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from indexer.clock import epoch_milliseconds
from indexer.errors import InvalidRecordError
from indexer.reporting.report import RoundedField
from mappings import Resource
from mappings.fields import Field, FieldKind, TextForm, number_in
from mappings.history import DICTIONARY_FIELDS
from mappings.listing import HISTORY, ON_MARKET_STATUSES, PROPERTY_TYPES, STATUSES, TIME_ZONE
from mappings.open_houses import find_time_zone
from mappings.record_schema import MAX_SAFE_INTEGER

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


def _normalized_shape(fields: tuple[Field, ...]) -> NormalizedShape:
    inner = [(field, _normalized_shape(field.members)) for field in fields if field.members]
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
    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._shape = _normalized_shape(fields)
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
    known = roundings.get(name)
    roundings[name] = replace(known, count=known.count + 1) if known else RoundedField(name, 1, number, whole)


_NOT_FOUND = -1


def _folded_name(name: str) -> str:
    return "".join(character for character in name.casefold() if character not in " _-")


_STATUSES = {_folded_name(status): status for status in STATUSES}
_ON_MARKET = {status: status in ON_MARKET_STATUSES for status in STATUSES}
_TYPE_NUMBERS = {name.casefold(): number for number, name in PROPERTY_TYPES.items()}


def record_rules(resource: Resource) -> Callable[[Any], int]:
    """Return the function that applies the rules to an envelope and returns its number of corrections.

    It raises InvalidRecordError for values that no rule covers. Resources other than listings and companies have none.
    """
    names = {field.name for field in resource.stored}
    if "public_partner_attrs" in names:
        return _company
    if "Status" not in names:
        return lambda _: 0
    return _listing if "StatusChangeDate" in names else _sold_listing


def _company(envelope: Any) -> int:
    """Complete the object: the contract allows null for `client_company_id` alone (decision 2)."""
    if envelope.record.public_partner_attrs is None:
        envelope.record.public_partner_attrs = {"is_nrt": None}
    return 0


def _listing(envelope: Any) -> int:
    """Keep StatusChangeDate only while the listing is on the market (decisions, `StatusChangeDate`).

    A listing without a status would be in no market, so that most requests would not find it.
    """
    if envelope.record.Status is None:
        raise InvalidRecordError("record.Status", f"is missing: use one of {', '.join(STATUSES)}")
    corrected = _market(envelope)
    if envelope.record.Status not in ON_MARKET_STATUSES:
        envelope.record.StatusChangeDate = None
    return corrected


def _sold_listing(envelope: Any) -> int:
    """Fill DaysOnMarket, whole days from the date of the contract to that of the sale.

    Of a listing that is on the market it would be wrong the next day; of one that left it unsold, no member says when.
    """
    corrected, record = _market(envelope), envelope.record
    if record.DaysOnMarket is None and record.ListingContractDate is not None and record.SoldDate is not None:
        days = (record.SoldDate - record.ListingContractDate).days
        record.DaysOnMarket = days if days >= 0 else None
    return corrected


def _market(envelope: Any) -> int:
    corrected = _status(envelope.record)
    _property_type(envelope)
    if envelope.property_time_zone is not None:
        _time_zone(envelope)
    if envelope.history is not None:
        envelope.history = _history(envelope.history)
    return corrected


def _status(record: Any) -> int:
    """Normalize Status and derive OnMarket from it; a contradicting OnMarket counts as a correction.

    A sold listing may have no status; it is not on the market.
    """
    if record.Status is None:
        record.OnMarket = bool(record.OnMarket)
        return 0
    if record.Status not in _ON_MARKET:
        record.Status = _canonical_status(record.Status)
    stated, record.OnMarket = record.OnMarket, _ON_MARKET[record.Status]
    return int(stated is not None and stated is not record.OnMarket)


def _canonical_status(status: str) -> str:
    if (canonical := _STATUSES.get(_folded_name(status))) is None:
        raise InvalidRecordError("record.Status", f"is {status!r}: use one of {', '.join(STATUSES)}")
    return canonical


def _property_type(envelope: Any) -> None:
    """Derive the name and the number of the property type from each other; reject a contradiction."""
    record, number = envelope.record, envelope.property_type_id
    if number in PROPERTY_TYPES and record.PropertyType == PROPERTY_TYPES[number]:
        return
    if number is not None and number not in PROPERTY_TYPES:
        raise InvalidRecordError("property_type_id", f"is {number}, which is not a known property type")
    named = _type_number(record.PropertyType)
    if number is not None and named is not None and number != named:
        raise InvalidRecordError(
            "property_type_id", f"is {number}, but PropertyType {record.PropertyType!r} is {named}"
        )
    known = named if number is None else number
    if known is not None:
        record.PropertyType = PROPERTY_TYPES[known]
    envelope.property_type_id = _NOT_FOUND if known is None else known


def _time_zone(envelope: Any) -> None:
    name = envelope.property_time_zone = envelope.property_time_zone or None
    if name is not None and find_time_zone(name) is None:
        reason = f"is {name[:_MAX_SHOWN]!r}, which is not a time zone: use a name such as America/Los_Angeles"
        raise InvalidRecordError(TIME_ZONE, reason)


def _history(given: Any) -> dict[str, Any] | None:
    """Return what the source says of earlier states, without what it leaves out; times in milliseconds since 1970."""
    found = {field.name: _history_value(field, getattr(given, field.name)) for field in DICTIONARY_FIELDS}
    return {name: value for name, value in found.items() if value is not None} or None


def _history_value(field: Field, value: Any) -> Any:
    if field.kind is not FieldKind.DATE_TIME or value is None:
        return number_in(value) if field.kind is FieldKind.NUMBER else value or None
    _check_date_time(f"{HISTORY}.{field.name}", value)
    return epoch_milliseconds(dt.datetime.fromisoformat(value))


def _type_number(name: str | None) -> int | None:
    if name is None:
        return None
    number = _TYPE_NUMBERS.get(name.strip().casefold())
    if number is None:
        raise InvalidRecordError("record.PropertyType", f"is {name!r}: use one of {', '.join(PROPERTY_TYPES.values())}")
    return number


_UNTYPED = frozenset({FieldKind.UNTYPED, FieldKind.UNTYPED_LIST})


def depth_check(fields: tuple[Field, ...], max_depth: int) -> Callable[[Any], None]:
    """Return the function that raises InvalidRecordError for an object with a member nested deeper than `max_depth`."""
    names = [field.name for field in fields if field.kind in _UNTYPED]
    untyped = member_getter(names)
    inner = tuple((field.name, depth_check(field.members, max_depth)) for field in fields if _has_untyped(field))

    def check(value: Any) -> None:
        for name, member in zip(names, untyped(value), strict=True):
            if member and type(member) in (dict, list) and _exceeds(member, max_depth):
                reason = f"is nested more than {max_depth} deep: flatten it, or raise BROKERAGE_MAX_RECORD_DEPTH"
                raise InvalidRecordError(f"record.{name}", reason)
        for name, check_member in inner:
            member = getattr(value, name)
            for part in member if isinstance(member, list) else [member] if member is not None else ():
                check_member(part)

    return check


def _has_untyped(field: Field) -> bool:
    return any(member.kind in _UNTYPED or _has_untyped(member) for member in field.members)


def _exceeds(value: Any, depth: int) -> bool:
    return depth == 0 or any(_exceeds(part, depth - 1) for part in _containers(value))


def _containers(value: Any) -> Iterator[Any]:
    parts = value.values() if isinstance(value, dict) else value
    return (part for part in parts if type(part) in (dict, list))


class Gap(NamedTuple):
    """A value that the source of a record lacks, which the record `key` of the resource `target` has."""

    member: str
    target: str
    key: str


def record_completion(resource: Resource) -> Callable[[Any], list[Gap]]:
    """Return the function that fills the times of the last change that a record lacks, and returns its gaps.

    Gaps are names that a record lacks although it refers to who has them, and the time zone of its open houses.
    """
    kinds = {field.name: field.kind for field in resource.stored if field.is_update_time}
    times = member_getter([*kinds])
    names = member_getter([name.member for name in resource.names])
    keys = member_getter([name.reference for name in resource.names])
    zone = resource.zone_of

    def complete(envelope: Any) -> list[Gap]:
        record = envelope.record
        if None in times(record):
            for name, kind in kinds.items():
                if getattr(record, name) is None:
                    setattr(record, name, _stored_time(envelope.updated_at, kind))
        given, gaps = names(record), list[Gap]()
        if not all(given):
            declared = zip(resource.names, given, keys(record), strict=True)
            gaps = [Gap(one.member, one.target, key) for one, name, key in declared if key and not name]
        if zone is not None and lacks_zone(envelope) and (key := getattr(record, zone.reference)):
            gaps.append(Gap(zone.member, zone.target, key))
        return gaps

    return complete


def lacks_zone(envelope: Any) -> bool:
    """Whether a listing has open houses of which it is unknown when they are elsewhere."""
    return envelope.property_time_zone is None and bool(envelope.record.OpenHouse)


def gap_value(envelope: Any, member: str) -> str | None:
    value: str | None = getattr(envelope if member == TIME_ZONE else envelope.record, member)
    return value


def fill_gap(envelope: Any, member: str, value: str | None) -> None:
    """Give an envelope what its source lacks: names are members of the record, the time zone is its own."""
    setattr(envelope if member == TIME_ZONE else envelope.record, member, value)


def _stored_time(moment: dt.datetime, kind: FieldKind) -> str | int:
    if kind is FieldKind.UNIX:
        return int(moment.timestamp())
    return moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"
