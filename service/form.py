"""The form of answered objects, compiled from a declaration: which members they have, in which order, spelt how.

A form is a pair of compiled types. A stored object is decoded into the first, which takes its members by their stored
names and completes absent ones, wherever they stand and whatever stands between them. The second is a subclass that
adds nothing: the same members in the same order, spelt as they are answered. So an object becomes an answered one by
being given that class, which Python itself refuses where the two do not lie alike in memory; then it is encoded. No
member is touched by Python, and no text is searched, so it does not matter what values hold.

Texts, whole numbers and truth values are decoded, which is quicker than to skip them; all else is carried along as the
very bytes that are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from mappings.fields import Kind
from mappings.naming import underscore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from mappings.fields import Field

# A fraction is not among them: 1e3 would come back as 1000.0.
_Plain = str | int | bool | None
_PLAIN = frozenset({Kind.STRING, Kind.DATE, Kind.DATE_TIME, Kind.INTEGER, Kind.UNIX, Kind.BOOLEAN})
_UNTYPED = frozenset({Kind.UNTYPED, Kind.UNTYPED_LIST})
_members_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements_of = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form of objects: `stored` is the type they are decoded into, `answered` the type they are encoded as.

    `inner` are the members that hold objects with a form of their own, `untyped` those in which any key must be
    respelt.
    """

    stored: type[msgspec.Struct]
    answered: type[msgspec.Struct]
    inner: tuple[tuple[str, Form], ...]
    untyped: tuple[str, ...]

    @cached_property
    def decode(self) -> Callable[[bytes | memoryview], msgspec.Struct]:
        """Decode one stored object; raise msgspec.DecodeError at a value of another type than declared."""
        return msgspec.json.Decoder(self.stored).decode

    @cached_property
    def _untyped_values(self) -> Callable[[msgspec.Struct], Sequence[msgspec.Raw]]:
        names = self.untyped
        return attrgetter(*names) if len(names) > 1 else lambda one: [getattr(one, name) for name in names]

    def answer(self, one: msgspec.Struct) -> None:
        """Make a decoded object an answered one, in place."""
        one.__class__ = self.answered
        for name, form in self.inner:
            if held := getattr(one, name):
                form.answer_each(held if type(held) is list else (held,))
        values = self._untyped_values(one)
        # Without a brace there is no object among them, hence no key.
        if b"{" in b"".join(values):
            for name, value in zip(self.untyped, values, strict=True):
                setattr(one, name, _respelt(value))

    def answer_each(self, objects: Sequence[msgspec.Struct]) -> None:
        """Make several objects answered ones, in place."""
        if self.inner or self.untyped:
            for one in objects:
                self.answer(one)
        else:
            answered = self.answered
            for one in objects:
                one.__class__ = answered


def _respelt(value: msgspec.Raw) -> object:
    """Respell every key of a value whose shape is not declared."""
    text = bytes(value)
    if b"{" not in text:
        return value
    if text.startswith(b"{"):
        return {underscore(key): _respelt(inner) for key, inner in _members_of(text).items()}
    if text.startswith(b"["):
        return [_respelt(element) for element in _elements_of(text)]
    return value


@dataclass(frozen=True)
class Style:
    """How forms are compiled: with underscored keys or not, and whether plain values must be of their declared type."""

    underscored: bool
    strict: bool

    def form(self, fields: tuple[Field, ...], emptied: Collection[str] = ()) -> Form:
        """Compile the form of objects with these members; `emptied` are those that are answered without a value."""
        inner = {field.name: self.form(field.members) for field in fields if self.underscored and field.members}
        members = [_member(field, self._type(field, inner.get(field.name))) for field in fields]
        # A name that is no declared one: no record has it, so the member is decoded as absent.
        names = {field.name: f" {field.name}" if field.name in emptied else field.name for field in fields}
        keys = {field.name: field.underscored if self.underscored else field.name for field in fields}
        stored = msgspec.defstruct("Stored", members, kw_only=True, gc=False, rename=names)
        return Form(
            stored=stored,
            answered=msgspec.defstruct("Answered", members, bases=(stored,), kw_only=True, gc=False, rename=keys),
            inner=tuple(inner.items()),
            untyped=tuple(field.name for field in fields if self.underscored and field.kind in _UNTYPED),
        )

    def _type(self, field: Field, form: Form | None) -> Any:
        if form is not None:
            return (list[form.stored] if field.kind is Kind.OBJECTS else form.stored) | None  # type: ignore[name-defined]
        return _Plain if self.strict and field.kind in _PLAIN else msgspec.Raw


def _member(field: Field, kind: Any) -> tuple[str, Any, Any]:
    empty = msgspec.Raw(msgspec.json.encode(field.empty)) if kind is msgspec.Raw else field.empty
    return (field.name, kind, empty)
