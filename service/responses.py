"""From encoded records to HTTP answers: bodies by joining bytes, paging headers, links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from service.authentication import QUERY as KEY_PARAMETER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yarl import URL

    from service.answer import Encoded

NEXT_WATERMARK = "X-Next-Updated-Since"

# The answer depends on the key, which shared caches do not know about.
_HEADERS = {"Cache-Control": "private, no-cache", "Vary": "x-api-key", "X-Content-Type-Options": "nosniff"}


def json_answer(body: Encoded, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return 200 with an encoded JSON body."""
    return web.Response(body=body, headers={**_HEADERS, **(headers or {})}, content_type="application/json")


def array(records: Sequence[Encoded], before: bytes = b"", after: bytes = b"") -> bytes:
    """Join encoded records into a JSON array, with what stands round it; a page of megabytes is copied this once."""
    parts: list[Encoded] = [before, b"["]
    for record in records:
        parts += (record, b",")
    if records:
        parts.pop()
    return b"".join((*parts, b"]", after))


def links(url: URL, relations: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the Link header: for each relation the request's own URL with other parameters, never with the key."""
    targets = []
    for relation, changes in relations.items():
        query = {name: value for name, value in url.query.items() if name != KEY_PARAMETER}
        target = url.with_query(query | {name: str(value) for name, value in changes.items()})
        targets.append(f'<{target}>; rel="{relation}"')
    return {"Link": ", ".join(targets)} if targets else {}
