"""Refusals as OData words them: `{"error": {"code", "message", "target", "details"}}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from aiohttp import web

from service.errors import Unauthorized
from service.media import JSON
from service.redaction import masked_keys

if TYPE_CHECKING:
    from service.errors import ApiError

_CHALLENGE = 'Bearer realm="brokerage", ApiKey realm="brokerage"'


def odata_problem(error: ApiError) -> web.Response:
    """Return the answer for an error, with the status and the headers that it has everywhere."""
    details = [{"code": error.code, "target": each.parameter, "message": each.message} for each in error.faults]
    target = {"target": error.faults[0].parameter} if error.faults else {}
    told = {"code": error.code, "message": error.detail, **target, "details": details}
    challenge = {"WWW-Authenticate": _CHALLENGE} if isinstance(error, Unauthorized) else {}
    return web.Response(
        # Whoever takes a key for an identifier or a path is not shown it again.
        body=masked_keys(orjson.dumps({"error": told}).decode()).encode(),
        status=error.status,
        headers={**error.headers, **challenge},
        content_type=JSON,
    )
