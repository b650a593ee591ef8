"""Who asks: the API key in the `x-api-key` header or the `api-key` query parameter (spec, Authentication)."""

from __future__ import annotations

import datetime as dt
import hmac
import re
from typing import TYPE_CHECKING

from service.errors import Unauthorized
from service.keys.text import parse

if TYPE_CHECKING:
    from aiohttp import web

    from service.keys.record import ApiKey
    from service.keys.ring import KeyRing

HEADER = "x-api-key"
QUERY = "api-key"

# RFC 6750, section 2.1: for clients that know no other header, where an operation takes it.
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/=-]+)", re.ASCII | re.IGNORECASE)

_MISSING = f"Send an API key in the {HEADER} header or the {QUERY} query parameter."
_MISSING_BEARER = f"Send an API key as a bearer token, in the {HEADER} header or the {QUERY} query parameter."
# One text for every other reason: it must not tell an unknown key from an expired one.
_REFUSED = "The API key is not valid."


async def authenticate(request: web.Request, keys: KeyRing, *, takes_bearer: bool = False) -> ApiKey:
    """Return the key of the request, perhaps sent as a bearer token, or raise Unauthorized."""
    text = parse(_sent(request, _bearers(request) if takes_bearer else None))
    key = await keys.find(text.key_id) if text is not None else None
    if text is None or key is None:
        raise Unauthorized(_REFUSED)
    now = dt.datetime.now(dt.UTC)
    if not hmac.compare_digest(key.digest, text.digest) or not key.usable(now):
        raise Unauthorized(_REFUSED)
    keys.usage.note(key.key_id, now)
    return key


def _sent(request: web.Request, bearer: list[str] | None) -> str:
    header: list[str] = request.headers.getall(HEADER, [])
    query: list[str] = request.query.getall(QUERY, [])
    sent: set[str] = {*header, *query, *(bearer or ())}
    if not sent:
        raise Unauthorized(_MISSING if bearer is None else _MISSING_BEARER)
    if max(len(header), len(query), len(bearer or ())) > 1 or len(sent) > 1:
        raise Unauthorized(_REFUSED)
    return sent.pop()


def _bearers(request: web.Request) -> list[str]:
    """Return the bearer tokens of a request; a header of another scheme is sent by somebody else's habit."""
    matches = map(_BEARER.fullmatch, request.headers.getall("Authorization", []))
    return [match[1] for match in matches if match]
