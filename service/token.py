"""Tokens of changes and snapshots: their content, and how they are sealed."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from cluster.control_index import TOKEN_KEYS_ID, Mark, TokenKeys
from mappings import RESOURCES
from mappings.resource import Resource
from service.errors import ApiError, EngineUnavailable, InvalidRequest
from service.search.cached_value import CachedValue
from service.search.engine import SearchEngine


class FeedTokenExpired(ApiError, status=410, code="token-expired", title="Token expired"):
    """The changes since a token are no longer available."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The token {why}: take a snapshot and continue from its token.")


# Increase it when tokens of the previous layout can no longer be read.
_TOKEN_VERSION = 1
_DIGEST_BYTES = 8
_RESOURCE_NUMBERS = {resource: number for number, resource in enumerate(RESOURCES)}


class FeedPosition(msgspec.Struct, frozen=True, array_like=True):
    """The last `sequence` read of a resource, within an `epoch` and an `epoch_id` of its mark.

    `floor` is the sequence of the mark when reading began: deletions before it were never part of the copy. `epoch_id`
    is empty if the mark had none. `base` is what changes are named since: a sequence at which the reader had all,
    0 if there is none.
    """

    epoch: int
    sequence: int
    floor: int
    epoch_id: str = ""
    base: int = 0

    @classmethod
    def start(cls, mark: Mark | None) -> FeedPosition:
        """Return the position before the first change."""
        return cls(0, 0, 0) if mark is None else cls(mark.epoch, 0, mark.sequence, mark.epoch_id)

    @classmethod
    def latest(cls, mark: Mark | None) -> FeedPosition:
        """Return the position after the last published change, of a reader who has everything up to it."""
        if mark is None:
            return cls(0, 0, 0)
        return cls(mark.epoch, mark.sequence, mark.sequence, mark.epoch_id, mark.sequence)

    @property
    def is_unread(self) -> bool:
        """Whether the resource had never been loaded, so that nothing of it was read."""
        return self == FeedPosition(0, 0, 0)

    def advanced_to(self, sequence: int, mark: Mark, base: int) -> FeedPosition:
        return FeedPosition(mark.epoch, sequence, self.floor, mark.epoch_id, base)

    def is_expired(self, mark: Mark) -> bool:
        """Whether changes after this position are unknown: other data are served, or tombstones were pruned."""
        return not (self.is_unread or self._is_of(mark)) or mark.forgotten > max(self.sequence, self.floor)

    def _is_of(self, mark: Mark) -> bool:
        """Whether the position is one of the mark's epoch, at or before the mark."""
        known = mark.sequence if self.epoch_id == mark.epoch_id else -1 if self.epoch_id else mark.named_at
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
    """Return the contents of a token, which is sealed before it is sent (`service.token`)."""
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


# Increase it when tokens of the previous layout can no longer be opened. Tokens were not sealed before 2: those begin
# with the code of an array in MessagePack.
_VERSION = b"\x02"
_UNSEALED = frozenset({b"\x93", b"\x97"})
_KEY_ID_BYTES = 4
_OF_OTHER_KEYS = "is older than the keys of this service"
_HEADER_BYTES = len(_VERSION) + _KEY_ID_BYTES
_END = b"\x80"
# Sizes of the padded contents: a position of one resource, and one of all.
_PADDED_BYTES = (96, 448)


class TokenKeysMissing(EngineUnavailable):
    """The indexer has not made the keys that seal tokens."""

    def __init__(self) -> None:
        super().__init__("The control index has no token keys: the next run of `brokerage index update` makes them.")
        self.detail = (
            "Tokens cannot be issued until the indexer has run once with this version: `brokerage index update` or "
            "`brokerage index reindex SOURCE`."
        )
        self.headers["Retry-After"] = "60"


class _SealedToken(NamedTuple):
    key_id: bytes
    ciphertext: bytes


class TokenSealer:
    """Seals and opens tokens with the keys of an installation.

    A token is the version, the id of the key and the ciphertext of AES-SIV (RFC 5297), in base64url. Positions are
    padded, since longer numbers would make longer tokens. Equal positions give equal tokens, so that an unchanged
    response keeps its entity tag; AES-SIV needs no nonce and shows no more than that equality.
    """

    def __init__(self, keys: TokenKeys) -> None:
        self._ciphers = {bytes.fromhex(key.id): AESSIV(key.secret) for key in keys.keys}
        self._newest = next(iter(self._ciphers))

    def seal(self, contents: bytes) -> str:
        """Return the token of its contents as base64url text without padding."""
        header = _VERSION + self._newest
        sealed = self._ciphers[self._newest].encrypt(_padded(contents), [header])
        return encode_base64(header + sealed)

    def knows(self, token: _SealedToken) -> bool:
        return token.key_id in self._ciphers

    def open(self, token: _SealedToken) -> bytes | None:
        """Return the contents, None if the token was altered."""
        try:
            padded = self._ciphers[token.key_id].decrypt(token.ciphertext, [_VERSION + token.key_id])
        except InvalidTag:
            return None
        return padded[: padded.rfind(_END)]


def _padded(contents: bytes) -> bytes:
    size = next((size for size in _PADDED_BYTES if len(contents) < size), len(contents) + 1)
    return (contents + _END).ljust(size, b"\0")


class TokenVault:
    """Seals and opens tokens; the keys are read from the control index and cached."""

    def __init__(self, sealer: CachedValue[TokenSealer | None]) -> None:
        self._sealer = sealer

    async def seal(self, contents: bytes) -> str:
        """Return the token of its contents; raise TokenKeysMissing."""
        return (await self.sealer()).seal(contents)

    async def sealer(self) -> TokenSealer:
        """Return the sealer; raise TokenKeysMissing, or what its read raises."""
        sealer = await self._sealer.get() or await self._sealer.refreshed()
        if sealer is None:
            raise TokenKeysMissing
        return sealer

    async def open(self, text: str, parameter: str) -> bytes:
        """Return the contents of a token; raise FeedTokenExpired for an unknown key, else InvalidRequest.

        Raises ApiError if the keys cannot be read: consumers must not start over for that.
        """
        token, sealer = _split(text, parameter), await self.sealer()
        if not sealer.knows(token):
            # Another process has read newer keys than this one has cached.
            sealer = await self._sealer.refreshed() or sealer
        if not sealer.knows(token):
            raise FeedTokenExpired(_OF_OTHER_KEYS)
        if (contents := sealer.open(token)) is None:
            raise _unreadable(parameter)
        return contents

    async def open_known(self, text: str) -> bytes | None:
        """Return the contents of a token that was sealed with a key in memory, None for any other text.

        Strangers may send it: nothing is read again for their sake.
        """
        raw, sealer = decode_base64(text), await self._sealer.get()
        if sealer is None or raw[:1] != _VERSION:
            return None
        token = _SealedToken(raw[len(_VERSION) : _HEADER_BYTES], raw[_HEADER_BYTES:])
        return sealer.open(token) if sealer.knows(token) else None


def _split(text: str, parameter: str) -> _SealedToken:
    """Split a token; raise FeedTokenExpired for one that is not sealed."""
    raw = decode_base64(text)
    if raw[:1] in _UNSEALED:
        raise FeedTokenExpired(_OF_OTHER_KEYS)
    if raw[:1] != _VERSION or len(raw) < _HEADER_BYTES:
        raise _unreadable(parameter)
    return _SealedToken(raw[len(_VERSION) : _HEADER_BYTES], raw[_HEADER_BYTES:])


def encode_base64(data: bytes) -> str:
    """Return bytes as base64url text without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode_base64(text: str) -> bytes:
    """Return the bytes of base64url text without padding, none if it is malformed."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def is_sealed(text: str) -> bool:
    return decode_base64(text)[:1] == _VERSION


def _unreadable(parameter: str) -> InvalidRequest:
    return InvalidRequest.of(parameter, "is not a token of this service: send it exactly as received.")


async def read_token_sealer(engine: SearchEngine, control_index: str) -> TokenSealer | None:
    """Return the sealer, None before the indexer has made a key."""
    document = await engine.get_document(control_index, TOKEN_KEYS_ID)
    keys = TokenKeys() if document is None else msgspec.convert(document, TokenKeys)
    return TokenSealer(keys) if keys.keys else None
