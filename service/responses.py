"""From encoded records to HTTP answers: bodies by joining bytes, paging headers, links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from service.authentication import QUERY as KEY_PARAMETER
from service.headers import LINK, OF_OPERATIONS
from service.media import JSON
from service.parts import Parts
from service.redaction import masked_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yarl import URL

    from service.answer import Encoded


def json_answer(
    parts: Sequence[Encoded], headers: Mapping[str, str] | None = None, content_type: str = JSON
) -> web.Response:
    """Return 200 with an encoded JSON body, perhaps of a narrower type."""
    return web.Response(body=Parts(parts), headers={**OF_OPERATIONS, **(headers or {})}, content_type=content_type)


def array(records: Sequence[Encoded], before: bytes = b"", after: bytes = b"") -> list[Encoded]:
    """Return the parts of a JSON array of encoded records, with what stands round it."""
    parts: list[Encoded] = [b","] * (2 * len(records) + 1)
    parts[1::2] = records
    parts[0] = before + b"["
    if records:
        parts[-1] = b"]" + after
    else:
        parts.append(b"]" + after)
    return parts


def count(parts: Sequence[Encoded]) -> int:
    """Return how many records are in the parts of an `array`, where every second part is one, or that one alone is."""
    return 1 if len(parts) == 1 else (len(parts) - 1) // 2


def links(url: URL, relations: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the Link header: for each relation the request's own URL with other parameters, never with the key."""
    targets = []
    for relation, changes in relations.items():
        query = {name: value for name, value in url.query.items() if name != KEY_PARAMETER}
        target = url.with_query(query | {name: str(value) for name, value in changes.items()})
        targets.append(f'<{target}>; rel="{relation}"')
    return {LINK: masked_keys(", ".join(targets))} if targets else {}
