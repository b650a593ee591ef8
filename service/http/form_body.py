"""Parameters in the body of a GET, as some clients of the compatible profile send them: read only for those keys."""

import re

from aiohttp import web

from service.http.request_limits import MAX_URL_BYTES, MalformedRequest

# The templates of paths whose operations decide about a form; all other paths refuse every body unread.
FORM_PATHS: web.AppKey[frozenset[str]] = web.AppKey("paths that may receive a form", frozenset)
_FORM = "application/x-www-form-urlencoded"
_ENCODED = re.compile(rb"[!-\"$-~]*")


def announces_form(request: web.Request) -> bool:
    """Return whether the request is for an operation, and its body a form within the length limit of URLs."""
    length, resource = request.content_length, request.match_info.route.resource
    return (
        request.content_type == _FORM
        and length is not None
        and length <= MAX_URL_BYTES
        and "Content-Encoding" not in request.headers
        and resource is not None
        and resource.canonical in request.app.get(FORM_PATHS, frozenset())
    )


async def read_form(request: web.Request) -> str:
    """Return the body of a request with `announces_form`, a query string; raise MalformedRequest."""
    body = await request.content.read()
    if not _ENCODED.fullmatch(body):
        raise MalformedRequest("The form in the body must be percent-encoded.")
    return body.decode()
