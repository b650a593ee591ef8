"""What every record is brought to before it is stored: whole numbers, true moments, lists instead of nulls."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from indexer.errors import ItemError
from mappings.fields import Kind
from mappings.record_type import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mappings.fields import Field


@dataclass(frozen=True)
class Shape:
    """The members of one object that may need completing, worked out once from the declaration."""

    integers: tuple[str, ...]
    moments: tuple[str, ...]
    lists: tuple[str, ...]
    single: tuple[tuple[str, Shape], ...]
    several: tuple[tuple[str, Shape], ...]

    @property
    def is_settled(self) -> bool:
        """Whether nothing in such an object ever needs completing."""
        return not (self.integers or self.moments or self.lists or self.single or self.several)


def shape(fields: tuple[Field, ...]) -> Shape:
    """Return what completing means for an object with these members."""
    inner = [(field, shape(field.members)) for field in fields if field.members]
    return Shape(
        integers=tuple(field.name for field in fields if field.kind is Kind.INTEGER),
        moments=tuple(field.name for field in fields if field.kind is Kind.DATE_TIME),
        lists=tuple(field.name for field in fields if field.kind.is_list),
        single=tuple((field.name, part) for field, part in inner if field.kind is Kind.OBJECT and not part.is_settled),
        several=tuple(
            (field.name, part) for field, part in inner if field.kind is Kind.OBJECTS and not part.is_settled
        ),
    )


class Completion:
    """Completes the records of one resource."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        """Work out what completing means for records with these members."""
        self._shape = shape(fields)
        # What is left to do in a record of the settled type.
        self._top = replace(self._shape, moments=(), single=(), several=())
        self._integers = members(self._top.integers)
        self._lists = members(self._top.lists)

    def any(self, record: Any) -> int:
        """Complete a record as the source sent it; return and raise as `complete`."""
        return _in_record(record, self._shape)

    def settled(self, record: Any) -> int:
        """Complete a record of the settled type. Mostly there is nothing to do, and that is seen without a loop."""
        if float in map(type, self._integers(record)) or None in self._lists(record):
            return _in_record(record, self._top)
        return 0


def members(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that reads these members at once, always as a tuple; `a.b` is the member b of member a."""
    if not names:
        return lambda _: ()
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda value: (read(value),)


def _in_record(record: Any, form: Shape) -> int:
    try:
        return complete(record, form)
    except ItemError as error:
        raise ItemError(f"record.{error.field}", error.reason) from None


def complete(value: Any, form: Shape) -> int:
    """Complete an object in place and return how many numbers lost a fraction; raise ItemError at one out of range."""
    rounded = 0
    for name in form.integers:
        number = getattr(value, name)
        if number is not None and (type(number) is float or not -LARGEST <= number <= LARGEST):
            rounded += _whole(value, name, number)
    for name in form.moments:
        _check_moment(name, getattr(value, name))
    for name in form.lists:
        if getattr(value, name) is None:
            setattr(value, name, [])
    for name, part in form.single:
        member = getattr(value, name)
        if member is not None:
            rounded += _inside(name, member, part)
    for name, part in form.several:
        for index, member in enumerate(getattr(value, name)):
            rounded += _inside((name, index), member, part)
    return rounded


def _inside(place: str | tuple[str, int], member: Any, form: Shape) -> int:
    """Complete a member; its place is spelt out only for a fault."""
    try:
        return complete(member, form)
    except ItemError as error:
        path = place if isinstance(place, str) else f"{place[0]}[{place[1]}]"
        raise ItemError(f"{path}.{error.field}", error.reason) from None


def _check_moment(name: str, text: str | None) -> None:
    """Refuse a moment that no calendar has; its form was checked when it was decoded, and it is kept as it is."""
    try:
        if text is not None:
            dt.datetime.fromisoformat(text)
    except ValueError:
        raise ItemError(name, f"is {text!r}, which is no moment of any calendar") from None


def _whole(value: Any, name: str, number: float) -> bool:
    """Round half up."""
    if not -LARGEST <= number <= LARGEST:
        raise ItemError(name, "is out of range: whole numbers reach to 2**53")
    floor = math.floor(number)
    fraction = number - floor
    setattr(value, name, floor + (fraction >= 0.5))
    return fraction > 0
