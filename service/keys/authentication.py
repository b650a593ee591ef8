"""Authentication by the API key in the `x-api-key` header or the `api-key` query parameter (spec, Authentication)."""

from __future__ import annotations

import datetime as dt
import hmac
import re
from typing import TYPE_CHECKING

from service.errors import Unauthorized
from service.http.headers import API_KEY_HEADER, API_KEY_PARAMETER
from service.keys.key_text import parse_key

if TYPE_CHECKING:
    from aiohttp import web

    from service.keys.record import ApiKey
    from service.keys.ring import KeyRing

# RFC 6750, section 2.1: for clients that support no other header, on operations that accept it.
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/=-]+)", re.ASCII | re.IGNORECASE)

_MISSING = f"Send an API key in the {API_KEY_HEADER} header or the {API_KEY_PARAMETER} query parameter."
_MISSING_BEARER = (
    f"Send an API key as a bearer token, in the {API_KEY_HEADER} header or the {API_KEY_PARAMETER} query parameter."
)
# One text for all other reasons, so that an unknown key cannot be distinguished from an expired one.
_REFUSED = "The API key is not valid."


async def authenticate(request: web.Request, keys: KeyRing, *, allow_bearer: bool = False) -> ApiKey:
    """Return the key of the request; raise Unauthorized. With `allow_bearer` it may be sent as a bearer token."""
    text = parse_key(_sent_key(request, _bearer_tokens(request) if allow_bearer else None))
    key = await keys.find(text.key_id) if text is not None else None
    if text is None or key is None:
        raise Unauthorized(_REFUSED)
    now = dt.datetime.now(dt.UTC)
    if not hmac.compare_digest(key.digest, text.digest) or not key.is_usable(now):
        raise Unauthorized(_REFUSED)
    keys.usage.record_use(key.key_id, now)
    return key


def _sent_key(request: web.Request, bearer: list[str] | None) -> str:
    header: list[str] = request.headers.getall(API_KEY_HEADER, [])
    query: list[str] = request.query.getall(API_KEY_PARAMETER, [])
    sent: set[str] = {*header, *query, *(bearer or ())}
    if not sent:
        raise Unauthorized(_MISSING if bearer is None else _MISSING_BEARER)
    if max(len(header), len(query), len(bearer or ())) > 1 or len(sent) > 1:
        raise Unauthorized(_REFUSED)
    return sent.pop()


def _bearer_tokens(request: web.Request) -> list[str]:
    """Return the bearer tokens of a request; other authentication schemes are ignored."""
    matches = map(_BEARER.fullmatch, request.headers.getall("Authorization", []))
    return [match[1] for match in matches if match]
