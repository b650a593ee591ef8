"""Build HTTP responses from encoded records: bodies by concatenation, links."""

from collections.abc import Mapping, Sequence

from aiohttp import web
from yarl import URL

from service.http.headers import API_KEY_PARAMETER, LINK, OPERATION_HEADERS
from service.http.negotiation import JSON
from service.http.payload import BufferListPayload, JsonBytes
from service.keys.redaction import mask_keys


def json_response(
    parts: Sequence[JsonBytes],
    headers: Mapping[str, str] | None = None,
    content_type: str = JSON,
    records: int | None = None,
) -> web.Response:
    """Return 200 with an encoded JSON body; `content_type` may be a more specific JSON type.

    `records` is the number of records in parts that `json_array` has not made.
    """
    return web.Response(
        body=BufferListPayload(parts, records),
        headers={**OPERATION_HEADERS, **(headers or {})},
        content_type=content_type,
    )


def json_array(records: Sequence[JsonBytes], before: bytes = b"", after: bytes = b"") -> list[JsonBytes]:
    """Return the parts of a JSON array of encoded records, with text before and after it."""
    parts: list[JsonBytes] = [b","] * (2 * len(records) + 1)
    parts[1::2] = records
    parts[0] = before + b"["
    if records:
        parts[-1] = b"]" + after
    else:
        parts.append(b"]" + after)
    return parts


def count_records(parts: Sequence[JsonBytes]) -> int:
    """Return the number of records in the parts of `json_array`; a single part is one record."""
    return 1 if len(parts) == 1 else (len(parts) - 1) // 2


def link_header(url: URL, relations: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the Link header: for each relation the request's URL with changed parameters, never with the key."""
    targets = []
    for relation, changes in relations.items():
        query = {name: value for name, value in url.query.items() if name != API_KEY_PARAMETER}
        target = url.with_query(query | {name: str(value) for name, value in changes.items()})
        targets.append(f'<{target}>; rel="{relation}"')
    return {LINK: mask_keys(", ".join(targets))} if targets else {}
