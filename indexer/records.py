"""What every record is brought to before it is stored: whole numbers, true moments, lists instead of nulls."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from indexer.errors import ItemError
from mappings.fields import Kind

if TYPE_CHECKING:
    from mappings.fields import Field

# The largest integer that every JSON reader keeps exactly.
_LARGEST = 2**53


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


def complete(value: Any, form: Shape) -> int:
    """Complete an object in place and return how many numbers lost a fraction; raise ItemError at one out of range."""
    rounded = 0
    for name in form.integers:
        number = getattr(value, name)
        if number is not None and (type(number) is float or not -_LARGEST <= number <= _LARGEST):
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
    if not -_LARGEST <= number <= _LARGEST:
        raise ItemError(name, "is out of range: whole numbers reach to 2**53")
    floor = math.floor(number)
    fraction = number - floor
    setattr(value, name, floor + (fraction >= 0.5))
    return fraction > 0
