"""The headers that answers carry whatever they hold (`/docs/transfer`, Caching): said here and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from service.authentication import QUERY as KEY_PARAMETER

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUEST_ID = "X-Request-Id"
NEXT_WATERMARK = "X-Next-Updated-Since"
LINK = "Link"

# What is shown depends on the key, which shared caches do not know about (RFC 9111 knows `Authorization` alone). The
# client's own cache may keep it, and has to ask each time whether it still holds.
OF_OPERATIONS: Mapping[str, str] = {"Cache-Control": "private, no-cache", "Vary": "x-api-key, Accept-Encoding"}
# Of operations that answer in two media types.
OF_TWO_TYPES: Mapping[str, str] = {"Vary": "x-api-key, Accept-Encoding, Accept"}

_NEVER_KEPT = "no-store"
# A key in a URL must not go on to another site, and no body is what its type does not say.
_OF_ALL: Mapping[str, str] = {"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}

# What a step on a request's way wants on its answer, a refusal by a later step included. `service.problems` puts an
# empty one into each request and adds what stands in it at the end.
FURTHER: web.RequestKey[dict[str, str]] = web.RequestKey("further headers", dict[str, str])


def add(response: web.StreamResponse, further: dict[str, str]) -> None:
    """Put further headers on an answer, in place; its links stay, and theirs come behind."""
    headers = response.headers
    links = filter(None, (headers.get(LINK), further.get(LINK)))
    headers.update(further)
    if LINK in further:
        headers[LINK] = ", ".join(links)


def seal(response: web.StreamResponse, request_id: str, request: web.BaseRequest | None = None) -> None:
    """Put on an answer what all have, in place; `request` is None where none could be read.

    What nobody said may be kept is not: problem documents, probes, `OPTIONS`. An answer to a URL that holds a key is
    never kept, because caches file answers under their URL.
    """
    headers = response.headers
    headers[REQUEST_ID] = request_id
    headers.update(_OF_ALL)
    if request is not None and KEY_PARAMETER in request.query:
        headers["Cache-Control"] = _NEVER_KEPT
    else:
        headers.setdefault("Cache-Control", _NEVER_KEPT)
