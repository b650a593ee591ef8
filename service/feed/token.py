"""Tokens: a position in the sequence of each resource, bound to a view of the data (decision 12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import msgspec

from cluster.control_index import Mark
from mappings import RESOURCES
from mappings.resource import Resource
from service.errors import InvalidRequest

# Increase it when tokens of the previous layout can no longer be read.
_TOKEN_VERSION = 1
_DIGEST_BYTES = 8
_RESOURCE_NUMBERS = {resource: number for number, resource in enumerate(RESOURCES)}


class FeedPosition(msgspec.Struct, frozen=True, array_like=True):
    """The last `sequence` read of a resource, within an `epoch` and a `life` of its mark.

    `floor` is the sequence of the mark when reading began: deletions before it were never part of the copy. `life` is
    empty if the mark had none.
    """

    epoch: int
    sequence: int
    floor: int
    life: str = ""

    @classmethod
    def start(cls, mark: Mark | None) -> FeedPosition:
        """Return the position before the first change."""
        return cls(0, 0, 0) if mark is None else cls(mark.epoch, 0, mark.sequence, mark.life)

    @classmethod
    def latest(cls, mark: Mark | None) -> FeedPosition:
        """Return the position after the last published change."""
        return cls(0, 0, 0) if mark is None else cls(mark.epoch, mark.sequence, mark.sequence, mark.life)

    @property
    def is_unread(self) -> bool:
        """Whether the resource had never been loaded, so that nothing of it was read."""
        return self == FeedPosition(0, 0, 0)

    def advanced_to(self, sequence: int, mark: Mark) -> FeedPosition:
        """Return the position at a later sequence of the life of a mark."""
        return FeedPosition(mark.epoch, sequence, self.floor, mark.life)

    def is_expired(self, mark: Mark) -> bool:
        """Whether changes after this position are unknown: other data are served, or tombstones were pruned."""
        return not (self.is_unread or self._is_of(mark)) or mark.forgotten > max(self.sequence, self.floor)

    def _is_of(self, mark: Mark) -> bool:
        """Whether the position is one of the mark's life, at or before the mark."""
        known = mark.sequence if self.life == mark.life else -1 if self.life else mark.named_at
        return self.epoch == mark.epoch and self.sequence <= known

    def is_behind(self, mark: Mark) -> bool:
        """Whether a read from this position finds changes to look through, or that it is expired."""
        return self.sequence < mark.sequence or self.is_expired(mark)


FeedPositions = dict["Resource", FeedPosition]


class _Token(msgspec.Struct, frozen=True, array_like=True):
    version: int
    view: bytes
    positions: dict[int, FeedPosition]


class TokenContents(NamedTuple):
    """The decoded tokens: the views they are bound to, and the positions in feed order."""

    views: set[bytes]
    positions: FeedPositions


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Token).decode


def view_fingerprint(*parts: object) -> bytes:
    """Return the fingerprint of a view of the data: companies, filters, withheld fields."""
    return sha256(msgspec.json.encode(parts)).digest()[:_DIGEST_BYTES]


def encode_token(view: bytes, positions: Mapping[Resource, FeedPosition]) -> bytes:
    """Return the contents of a token, which is sealed before it is sent (`service.feed.token_sealing`)."""
    token = _Token(
        _TOKEN_VERSION, view, {_RESOURCE_NUMBERS[resource]: position for resource, position in positions.items()}
    )
    return _encode(token)


def decode_tokens(opened: Iterable[bytes], parameter: str) -> TokenContents:
    """Return the contents of opened tokens that cover different resources; raise InvalidRequest."""
    tokens, positions = [_decode_token(contents, parameter) for contents in opened], FeedPositions()
    for token in tokens:
        for number, position in token.positions.items():
            if (resource := RESOURCES[number]) in positions:
                raise InvalidRequest.of(parameter, f"two tokens cover {resource.alias}.")
            positions[resource] = position
    ordered = {resource: positions[resource] for resource in RESOURCES if resource in positions}
    return TokenContents({token.view for token in tokens}, ordered)


def _decode_token(contents: bytes, parameter: str) -> _Token:
    try:
        token = _decode(contents)
    except msgspec.DecodeError:
        token = None
    if (
        token is None
        or token.version != _TOKEN_VERSION
        or not token.positions
        or not token.positions.keys() <= {*_RESOURCE_NUMBERS.values()}
    ):
        raise InvalidRequest.of(parameter, "is not a token of this service: send it exactly as received.")
    return token
