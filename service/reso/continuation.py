"""Next links that are followed without a key, for programs that have their key in the URL (decision 60).

Such a program follows `@odata.nextLink` as it is. URLs are logged, so the link must not hold the key: its `$skiptoken`
is sealed, and proves for some hours that the key was sent for this very query. The key is looked up for each page, so
the link of a key that was revoked, or that may read less, opens no more than the key.
"""

import time
from collections.abc import Mapping
from typing import Annotated

import msgspec
from aiohttp import web
from multidict import MultiMapping
from yarl import URL

from service.http.responses import API_KEY_HEADER, API_KEY_PARAMETER
from service.keys.authentication import Proof
from service.request_context import RequestContext
from service.reso.ordering import SkipToken, fingerprint_query
from service.reso.protocol import SKIP_TOKEN
from service.token import TokenVault

_HOUR = 3_600
# From the page for which the key was sent, to the end of an hour: equal pages have equal links, and thus entity tags.
_LASTS_HOURS = 6
_DIGEST_BYTES = 32


class Continuation(msgspec.Struct, frozen=True, array_like=True):
    """Whose key was sent, with the digest of its secret; until when, in seconds since 1970, and for what it counts."""

    key_id: str
    digest: Annotated[bytes, msgspec.Meta(min_length=_DIGEST_BYTES, max_length=_DIGEST_BYTES)]
    until: int
    query: bytes


class _LinkToken(SkipToken, frozen=True, array_like=True):
    continuation: Continuation | None = None


_decode = msgspec.msgpack.Decoder(_LinkToken).decode


def link_contents(cursor: SkipToken, continuation: Continuation) -> bytes:
    """Return the contents of a token, which only counts as a proof when it is sealed."""
    return msgspec.msgpack.encode((*msgspec.structs.astuple(cursor), continuation))


async def read_proof(request: web.Request, tokens: TokenVault) -> Proof | None:
    """Return what the link proves that a request without a key follows, None if nothing."""
    found = await _followed(request.rel_url, request.headers, tokens)
    return None if found is None else Proof(found.key_id, found.digest.hex())


async def continuation(call: RequestContext, options: Mapping[str, str]) -> Continuation | None:
    """Return what the next link with these options proves: as much as the link that led here, or a key in the URL."""
    url, services = call.client.url, call.services
    if _has_credentials(call.client.headers):
        return None
    if API_KEY_PARAMETER not in url.query:
        return await _followed(url, call.client.headers, services.tokens)
    if (key := services.keys.recall(call.key_id)) is None:
        return None  # withdrawn meanwhile: the response is discarded
    until = (int(time.time()) // _HOUR + 1 + _LASTS_HOURS) * _HOUR
    return Continuation(key.key_id, bytes.fromhex(key.digest), until, _fingerprint(url.path, options))


async def _followed(url: URL, headers: MultiMapping[str], tokens: TokenVault) -> Continuation | None:
    if _has_credentials(headers) or API_KEY_PARAMETER in url.query:
        return None
    contents = await tokens.open_known(url.query.get(SKIP_TOKEN, ""))
    try:
        found = None if contents is None else _decode(contents).continuation
    except msgspec.DecodeError:
        return None
    options = {name: text for name, text in url.query.items() if name != SKIP_TOKEN}
    is_valid = found is not None and found.until > time.time() and found.query == _fingerprint(url.path, options)
    return found if is_valid else None


def _has_credentials(headers: MultiMapping[str]) -> bool:
    return API_KEY_HEADER in headers or "Authorization" in headers


def _fingerprint(path: str, options: Mapping[str, str]) -> bytes:
    return fingerprint_query(path, sorted(options.items()))
