"""The headers of answers, described once each."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}

HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {"description": "Quote it when you report something.", "schema": _TEXT},
    "RateLimit-Policy": {"description": "The quotas of the key and their windows in seconds.", "schema": _TEXT},
    "RateLimit": {"description": "Requests that are left, and the seconds until there are more.", "schema": _TEXT},
    "X-RateLimit-Limit": {"description": "Requests that may be sent at once: the burst.", "schema": _COUNT},
    "X-RateLimit-Remaining": {"description": "Requests that are left.", "schema": _COUNT},
    "X-RateLimit-Reset": {"description": "Seconds until the burst is whole again.", "schema": _COUNT},
    "Retry-After": {"description": "Seconds to wait before the next attempt.", "schema": _COUNT},
    "WWW-Authenticate": {"description": "How to authenticate.", "schema": _TEXT},
    "ETag": {"description": "Send it as If-None-Match to be answered 304 while nothing has changed.", "schema": _TEXT},
    "Cache-Control": {"description": "Who may keep the answer.", "schema": _TEXT},
    "Link": {
        "description": "Whole URLs, without the key: first, prev, next, last page; deprecation, sunset.",
        "schema": _TEXT,
    },
    "Deprecation": {
        "description": "Since when the operation or a parameter that was sent is deprecated (RFC 9745).",
        "schema": _TEXT | {"pattern": "^@[0-9]+$"},
    },
    "Sunset": {"description": "From when on it may be gone (RFC 8594).", "schema": _TEXT},
    "X-Page-Number": {"description": "The number of this page; the first is 1.", "schema": _COUNT | {"minimum": 1}},
    "X-Total-Pages": {"description": "How many pages there are, at least 1.", "schema": _COUNT | {"minimum": 1}},
    "X-Total-Count": {"description": "How many records there are on all pages.", "schema": _COUNT},
    "X-Next-Updated-Since": {
        "description": "With the first page of a walk: what to send as updated_since the next time.",
        "schema": _COUNT,
    },
}

# Whatever is deprecated one day is announced by these: clients of today can look out for them.
OF_AN_OPERATION = ("Deprecation", "Sunset")
OF_EVERY_ANSWER = ("X-Request-Id",)
OF_A_KEY = ("RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
OF_A_BODY = ("ETag", "Cache-Control")
OF_A_NUMBERED_PAGE = ("Link", "X-Page-Number", "X-Total-Pages", "X-Total-Count")
OF_A_WALK = ("Link", "X-Next-Updated-Since")


def references(*names: str) -> dict[str, dict[str, str]]:
    """Return the `headers` member of a response."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
