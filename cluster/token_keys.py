"""The secret keys that seal the tokens of the feed: a document of the control index, written by the indexer.

The newest key seals. The earlier ones still open tokens, until they are dropped.
"""

import secrets
import time
from typing import Any

import msgspec
from elasticsearch import AsyncElasticsearch, ConflictError, NotFoundError

# The id of the document.
TOKEN_KEYS_ID = "token-keys"  # noqa: S105 - an id
# For AES-SIV with two keys of 256 bits.
_SECRET_BYTES = 64
_KEY_ID_BYTES = 4
# Of five keys the oldest was replaced at least 360 days ago: longer than tombstones, without which tokens expire.
_KEPT_KEYS = 5
_KEY_SECONDS = 90 * 86_400


class TokenKey(msgspec.Struct, frozen=True):
    """One key: a random id in 8 hexadecimal digits, the secret, and when it was made, in seconds since 1970."""

    id: str
    secret: bytes
    created: int


class TokenKeys(msgspec.Struct, frozen=True):
    """All keys, the newest first."""

    keys: tuple[TokenKey, ...] = ()


def renewed_keys(present: TokenKeys, now: float) -> TokenKeys | None:
    """Return the keys with a new one if the newest is due for replacement, else None."""
    if present.keys and now - present.keys[0].created < _KEY_SECONDS:
        return None
    added = TokenKey(secrets.token_hex(_KEY_ID_BYTES), secrets.token_bytes(_SECRET_BYTES), int(now))
    return TokenKeys((added, *present.keys[: _KEPT_KEYS - 1]))


async def ensure_token_keys(client: AsyncElasticsearch, control_index: str) -> None:
    """Create the first key in the control index, or a new one if the newest is due for replacement."""
    try:
        response = await client.get(index=control_index, id=TOKEN_KEYS_ID)
    except NotFoundError:
        present = TokenKeys()
        condition: dict[str, Any] = {"op_type": "create"}
    else:
        present = msgspec.convert(response["_source"], TokenKeys)
        condition = {"if_seq_no": response["_seq_no"], "if_primary_term": response["_primary_term"]}
    if (renewed := renewed_keys(present, time.time())) is None:
        return
    try:
        await client.index(
            index=control_index, id=TOKEN_KEYS_ID, document=msgspec.to_builtins(renewed), refresh=True, **condition
        )
    except ConflictError:
        return  # a concurrent run was faster
