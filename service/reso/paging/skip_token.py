"""`$skiptoken`: the cursor of a paged request."""

from hashlib import sha256
from typing import Annotated

import msgspec

from service.errors import InvalidRequest
from service.feed.token import TokenVault, decode_base64, encode_base64, is_sealed
from service.parameters.groups import MAX_PAGE_SIZE
from service.reso.entity_sets.sort_fields import SortKind
from service.reso.protocol.option_names import SKIP_TOKEN

# Increase it when tokens of the previous layout can no longer be read.
_TOKEN_VERSION = 1
_DIGEST_BYTES = 8

# Integers that every JSON reader keeps exactly.
_SafeInteger = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
# The sort values of the last row that was returned.
Position = tuple[str | int | float | None, ...]


class SkipToken(msgspec.Struct, frozen=True, array_like=True):
    """The state of a paged request.

    `query_fingerprint` identifies entity set, filter and order, `rows_sent` counts the rows returned so far, `count` is
    the total of the first page, `floor_event` the last event when reading from the first event began, else 0.
    """

    query_fingerprint: bytes
    page_size: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE_SIZE)]
    rows_sent: _SafeInteger = 0
    count: _SafeInteger | None = None
    position: Position = ()
    floor_event: _SafeInteger = 0
    version: int = _TOKEN_VERSION

    @property
    def contents(self) -> bytes:
        """The encoded token."""
        return msgspec.msgpack.encode(self)


_decode = msgspec.msgpack.Decoder(SkipToken).decode


def fingerprint_query(*parts: object) -> bytes:
    """Return the fingerprint of a query: of entity set, filter and order."""
    return sha256(msgspec.json.encode(parts)).digest()[:_DIGEST_BYTES]


async def encode_skip_token(cursor: SkipToken, tokens: TokenVault) -> str:
    """Return a token as base64url text without padding, sealed if it holds the last event of all companies."""
    if cursor.floor_event:
        return await tokens.seal(cursor.contents)
    return encode_base64(cursor.contents)


async def open_skip_token(text: str, tokens: TokenVault) -> bytes:
    """Return the contents of a token; raise InvalidRequest. Tokens of earlier versions are not sealed."""
    return await tokens.open(text, SKIP_TOKEN) if is_sealed(text) else decode_base64(text)


def decode_skip_token(contents: bytes, query_fingerprint: bytes, position_kinds: tuple[SortKind, ...]) -> SkipToken:
    """Decode a token; raise InvalidRequest for a malformed one, or for one that was issued for another query.

    `position_kinds` are the types of the sort values.
    """
    try:
        cursor = _decode(contents)
    except msgspec.DecodeError:
        cursor = None
    if cursor is None or cursor.version != _TOKEN_VERSION or not _fits(cursor.position, position_kinds):
        raise InvalidRequest.of(
            SKIP_TOKEN, "is not a token of this service: follow @odata.nextLink exactly as received."
        )
    if cursor.query_fingerprint != query_fingerprint:
        raise InvalidRequest.of(SKIP_TOKEN, "was issued for another $filter or $orderby: follow @odata.nextLink.")
    return cursor


def _fits(position: Position, kinds: tuple[SortKind, ...]) -> bool:
    return len(position) == len(kinds) and all(kind.accepts(value) for kind, value in zip(kinds, position, strict=True))
