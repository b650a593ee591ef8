"""Sealing of tokens: they hold positions among the changes of all companies, which no partner may read.

A token is the version, the id of the key and the ciphertext of AES-SIV (RFC 5297), in base64url. Positions are padded,
since longer numbers would make longer tokens. Equal positions give equal tokens, so that an unchanged response keeps
its entity tag; AES-SIV needs no nonce and shows no more than that equality.
"""

import base64
import binascii
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from cluster.token_keys import TOKEN_KEYS_ID, TokenKeys
from service.errors import EngineUnavailable, InvalidRequest
from service.feed.token_expired import FeedTokenExpired
from service.search.cached_value import CachedValue
from service.search.engine import SearchEngine

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
        """Name the command that makes them."""
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
    """Seals and opens tokens with the keys of an installation."""

    def __init__(self, keys: TokenKeys) -> None:
        """Seal with the first key."""
        self._ciphers = {bytes.fromhex(key.id): AESSIV(key.secret) for key in keys.keys}
        self._newest = next(iter(self._ciphers))

    def seal(self, contents: bytes) -> str:
        """Return the token of its contents as base64url text without padding."""
        header = _VERSION + self._newest
        sealed = self._ciphers[self._newest].encrypt(_padded(contents), [header])
        return encode_base64(header + sealed)

    def knows(self, token: _SealedToken) -> bool:
        """Whether the key of a token is known."""
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
        """Read the keys on first use."""
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
    """Whether a token is sealed."""
    return decode_base64(text)[:1] == _VERSION


def _unreadable(parameter: str) -> InvalidRequest:
    return InvalidRequest.of(parameter, "is not a token of this service: send it exactly as received.")


async def read_token_sealer(engine: SearchEngine, control_index: str) -> TokenSealer | None:
    """Return the sealer, None before the indexer has made a key."""
    document = await engine.get_document(control_index, TOKEN_KEYS_ID)
    keys = TokenKeys() if document is None else msgspec.convert(document, TokenKeys)
    return TokenSealer(keys) if keys.keys else None
