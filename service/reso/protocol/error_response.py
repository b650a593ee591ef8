"""Errors in the OData format: `{"error": {"code", "message", "target", "details"}}`."""

import orjson
from aiohttp import web

from service.errors import ApiError, Unauthorized
from service.http.negotiation import JSON
from service.keys.api_key import mask_keys

_CHALLENGE = 'Bearer realm="brokerage", ApiKey realm="brokerage"'


def odata_error_response(error: ApiError) -> web.Response:
    """Return the OData response for an error, with its usual status and headers."""
    details = [{"code": error.code, "target": fault.parameter, "message": fault.message} for fault in error.faults]
    target = {"target": error.faults[0].parameter} if error.faults else {}
    body = {"code": error.code, "message": error.detail, **target, "details": details}
    challenge = {"WWW-Authenticate": _CHALLENGE} if isinstance(error, Unauthorized) else {}
    return web.Response(
        # A key sent by mistake as an identifier or in a path is not echoed.
        body=mask_keys(orjson.dumps({"error": body}).decode()).encode(),
        status=error.status,
        headers={**error.headers, **challenge},
        content_type=JSON,
    )
