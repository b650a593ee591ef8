"""Header names, and the headers that do not depend on a response's content (`/docs/transfer`, Caching)."""

from collections.abc import Mapping

from aiohttp import web

API_KEY_HEADER = "x-api-key"
API_KEY_PARAMETER = "api-key"  # in the query string
REQUEST_ID = "X-Request-Id"
NEXT_WATERMARK = "X-Next-Updated-Since"
LINK = "Link"

# The content depends on the key, which shared caches do not know about (RFC 9111 knows `Authorization` only). The
# client's own cache may store it, and must revalidate it each time.
OPERATION_HEADERS: Mapping[str, str] = {"Cache-Control": "private, no-cache", "Vary": "x-api-key, Accept-Encoding"}
# For operations with two media types.
TWO_MEDIA_TYPE_HEADERS: Mapping[str, str] = {"Vary": "x-api-key, Accept-Encoding, Accept"}
_NO_STORE = "no-store"
# A key in a URL must not leak to another site, and browsers must not guess a type.
_SECURITY_HEADERS: Mapping[str, str] = {"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}

# Headers that a step adds for its response, even if a later step refuses the request. `service.http.problems` creates
# the dictionary and merges it into the response at the end.
EXTRA_HEADERS: web.RequestKey[dict[str, str]] = web.RequestKey("extra headers", dict[str, str])


def add_common_headers(response: web.StreamResponse, request_id: str, request: web.BaseRequest | None = None) -> None:
    """Add the headers of every response, in place; `request` is None if it could not be parsed.

    Responses without `Cache-Control` get `no-store`: problem documents, probes, `OPTIONS`. So do all responses to a URL
    with a key in it, because caches index responses by URL.
    """
    headers = response.headers
    headers[REQUEST_ID] = request_id
    headers.update(_SECURITY_HEADERS)
    # Refusals have no `Cache-Control`: the query of a request that was refused for its length is never parsed.
    if "Cache-Control" not in headers or (request is not None and API_KEY_PARAMETER in request.query):
        headers["Cache-Control"] = _NO_STORE
