"""The depth of values whose shape is not declared, which could otherwise exhaust the stack of their readers."""

from collections.abc import Callable, Iterator
from typing import Any

from indexer.errors import InvalidRecordError
from mappings.fields import Field, FieldKind

_UNTYPED = frozenset({FieldKind.UNTYPED, FieldKind.UNTYPED_LIST})


def depth_check(fields: tuple[Field, ...], max_depth: int) -> Callable[[Any], None]:
    """Return the function that raises InvalidRecordError for an object with a member nested deeper than `max_depth`."""
    untyped = tuple(field.name for field in fields if field.kind in _UNTYPED)
    inner = tuple((field.name, depth_check(field.members, max_depth)) for field in fields if _has_untyped(field))

    def check(value: Any) -> None:
        for name in untyped:
            member = getattr(value, name)
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
