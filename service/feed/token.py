"""Tokens: a place in the sequence of each resource, and for which view of the data (decision 12)."""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mappings import RESOURCES
from service.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cluster.control import Mark
    from mappings.resource import Resource

# Raised when a token of an earlier form cannot be read any more.
_FORM = 1
_DIGEST_BYTES = 8
_NUMBERS = {resource: number for number, resource in enumerate(RESOURCES)}


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Up to which `sequence` a resource was read, within which `epoch` of its mark.

    `floor` is the sequence of the mark when reading began: what was gone by then was never given.
    """

    epoch: int
    sequence: int
    floor: int

    @classmethod
    def start(cls, mark: Mark | None) -> Place:
        """Return the place before everything."""
        return cls(0, 0, 0) if mark is None else cls(mark.epoch, 0, mark.sequence)

    @classmethod
    def at(cls, mark: Mark | None) -> Place:
        """Return the place behind everything that is published."""
        return cls(0, 0, 0) if mark is None else cls(mark.epoch, mark.sequence, mark.sequence)

    def moved(self, sequence: int) -> Place:
        """Return the place further on."""
        return Place(self.epoch, sequence, self.floor)

    def is_void(self, mark: Mark) -> bool:
        """Whether what lies behind this place cannot be told any more: rolled back, or tombstones are pruned."""
        return self.epoch != mark.epoch or mark.forgotten > max(self.sequence, self.floor)


Places = dict["Resource", Place]


class _Token(msgspec.Struct, frozen=True, array_like=True):
    form: int
    view: bytes
    places: dict[int, Place]


class Read(NamedTuple):
    """What tokens say together: the views they were made for, and the places in their order."""

    views: set[bytes]
    places: Places


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Token).decode


def view_of(*parts: object) -> bytes:
    """Return the fingerprint of a view of the data: companies, filters, withheld fields."""
    return sha256(msgspec.json.encode(parts)).digest()[:_DIGEST_BYTES]


def write(view: bytes, places: Mapping[Resource, Place]) -> str:
    """Return the text of a token, of letters, digits, `-` and `_`."""
    token = _Token(_FORM, view, {_NUMBERS[resource]: place for resource, place in places.items()})
    return base64.urlsafe_b64encode(_encode(token)).decode().rstrip("=")


def read(texts: Iterable[str], parameter: str) -> Read:
    """Return what tokens say that cover other resources each; raise InvalidRequest."""
    tokens, places = [_read(text, parameter) for text in texts], Places()
    for token in tokens:
        for number, place in token.places.items():
            if (resource := RESOURCES[number]) in places:
                raise InvalidRequest.of(parameter, f"two tokens cover {resource.alias}.")
            places[resource] = place
    ordered = {resource: places[resource] for resource in RESOURCES if resource in places}
    return Read({token.view for token in tokens}, ordered)


def _read(text: str, parameter: str) -> _Token:
    try:
        token = _decode(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        token = None
    if token is None or token.form != _FORM or not token.places or not token.places.keys() <= {*_NUMBERS.values()}:
        raise InvalidRequest.of(parameter, "is not a token of this service: send one as it was received.")
    return token
