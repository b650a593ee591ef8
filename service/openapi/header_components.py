"""The headers of responses, described once each."""

from typing import Any

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}

HEADER_COMPONENTS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {"description": "Quote it when you report something.", "schema": _TEXT},
    "RateLimit-Policy": {"description": "The quotas of the key and their windows in seconds.", "schema": _TEXT},
    "RateLimit": {"description": "Remaining requests, and the seconds until there are more.", "schema": _TEXT},
    "X-RateLimit-Limit": {"description": "Requests that may be sent at once: the burst.", "schema": _COUNT},
    "X-RateLimit-Remaining": {"description": "Remaining requests.", "schema": _COUNT},
    "X-RateLimit-Reset": {"description": "Seconds until the full burst is available again.", "schema": _COUNT},
    "Retry-After": {"description": "Seconds to wait before the next attempt.", "schema": _COUNT},
    "WWW-Authenticate": {"description": "How to authenticate.", "schema": _TEXT},
    "ETag": {
        "description": "Send it as If-None-Match: the response is 304 while nothing has changed.",
        "schema": _TEXT,
    },
    "Cache-Control": {"description": "Who may cache the response.", "schema": _TEXT},
    "Link": {
        "description": "URLs, without the key: first, prev, next, last page that can be read; alternate: the snapshot, "
        "if there are more records than pages reach; deprecation, sunset.",
        "schema": _TEXT,
    },
    "Deprecation": {
        "description": "The time since which the operation or a parameter that was sent is deprecated (RFC 9745).",
        "schema": _TEXT | {"pattern": "^@[0-9]+$"},
    },
    "Sunset": {"description": "The time from which it may be removed (RFC 8594).", "schema": _TEXT},
    "X-Page-Number": {"description": "The number of this page; the first is 1.", "schema": _COUNT | {"minimum": 1}},
    "X-Total-Pages": {
        "description": "The number of pages that can be read, at least 1. Pages reach 100,000 records.",
        "schema": _COUNT | {"minimum": 1},
    },
    "X-Total-Count": {
        "description": "The number of records, including those that pages do not reach.",
        "schema": _COUNT,
    },
    "Warning": {
        "description": "There are more records than numbered pages reach, or unknown parameters were ignored.",
        "schema": _TEXT,
    },
    "Accept-Ranges": {"description": "The unit of ranges: bytes.", "schema": _TEXT},
    "Content-Range": {"description": "Which bytes of the file these are, and its size.", "schema": _TEXT},
    "Location": {
        "description": "Where the file is: a URL for some minutes, which needs no key.",
        "schema": _TEXT,
    },
    "Repr-Digest": {"description": "The SHA-256 of the whole file (RFC 9530).", "schema": _TEXT},
    "X-Next-Updated-Since": {
        "description": "With the first page of a walk: the updated_since of the next walk.",
        "schema": _COUNT,
    },
}

# Reserved: documented before anything is deprecated, so that clients can already check for them.
DEPRECATION_HEADERS = ("Deprecation", "Sunset")
COMMON_HEADERS = ("X-Request-Id",)
RATE_LIMIT_HEADERS = (
    "RateLimit-Policy",
    "RateLimit",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)
CACHE_HEADERS = ("ETag", "Cache-Control")
FILE_HEADERS = (*CACHE_HEADERS, "Accept-Ranges", "Repr-Digest")
NUMBERED_PAGE_HEADERS = ("Link", "X-Page-Number", "X-Total-Pages", "X-Total-Count", "Warning")
CURSOR_PAGE_HEADERS = ("Link", "X-Next-Updated-Since")


def header_references(*names: str) -> dict[str, dict[str, str]]:
    """Return the `headers` member of a response."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
