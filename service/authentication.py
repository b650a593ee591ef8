"""Who asks: the API key in the `x-api-key` header or the `api-key` query parameter (spec, Authentication)."""

from __future__ import annotations

import datetime as dt
import hmac
from typing import TYPE_CHECKING

from service.errors import Unauthorized
from service.keys.text import parse

if TYPE_CHECKING:
    from aiohttp import web

    from service.keys.record import ApiKey
    from service.keys.ring import KeyRing

HEADER = "x-api-key"
QUERY = "api-key"

_MISSING = f"Send an API key in the {HEADER} header or the {QUERY} query parameter."
# One text for every other reason: it must not tell an unknown key from an expired one.
_REFUSED = "The API key is not valid."


async def authenticate(request: web.Request, keys: KeyRing) -> ApiKey:
    """Return the key of the request or raise Unauthorized."""
    text = parse(_sent(request))
    key = await keys.find(text.key_id) if text is not None else None
    if text is None or key is None:
        raise Unauthorized(_REFUSED)
    now = dt.datetime.now(dt.UTC)
    if not hmac.compare_digest(key.digest, text.digest) or not key.usable(now):
        raise Unauthorized(_REFUSED)
    keys.usage.note(key.key_id, now)
    return key


def _sent(request: web.Request) -> str:
    header = request.headers.getall(HEADER, [])
    query = request.query.getall(QUERY, [])
    if not header and not query:
        raise Unauthorized(_MISSING)
    if len(header) > 1 or len(query) > 1 or len({*header, *query}) > 1:
        raise Unauthorized(_REFUSED)
    return (header or query)[0]
