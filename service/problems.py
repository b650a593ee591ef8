"""Every failure leaves as RFC 9457 `application/problem+json`: the outermost middleware."""

from __future__ import annotations

import logging
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING

import orjson
from aiohttp import web

from service.errors import (
    ApiError,
    DeadlinePassed,
    EngineUnavailable,
    InternalError,
    MethodNotAllowed,
    NotFound,
    UrlTooLong,
)
from service.limits.standing import STANDING_HEADERS
from service.redaction import masked_keys

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LONGEST_URL_BYTES = 8192
REQUEST_ID = "X-Request-Id"

_log = logging.getLogger("service")


@web.middleware
async def answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors of ours, of the router and of nobody into problem documents; give every answer a request id."""
    request_id = secrets.token_hex(8)
    standing = request[STANDING_HEADERS] = {}
    try:
        if len(request.raw_path) > LONGEST_URL_BYTES:
            raise UrlTooLong(f"The URL has {len(request.raw_path)} bytes; at most {LONGEST_URL_BYTES} are accepted.")  # noqa: TRY301
        response = await handler(request)
    except Exception as error:
        response = problem(_known(error, request_id), request.path, request_id)
    response.headers[REQUEST_ID] = request_id
    response.headers.update(standing)
    return response


def _known(error: Exception, request_id: str) -> ApiError:
    if isinstance(error, ApiError):
        _log_reason(error, request_id)
        return error
    if isinstance(error, web.HTTPException):
        return of_framework(error)
    if isinstance(error, TimeoutError):
        return DeadlinePassed()
    _log.error("request %s failed", request_id, exc_info=error)
    return InternalError("an exception that nothing expected")


def _log_reason(error: ApiError, request_id: str) -> None:
    if isinstance(error, InternalError):
        _log.error("request %s: %s", request_id, error.reason)
    elif isinstance(error, EngineUnavailable):
        _log.warning("request %s: %s", request_id, error.reason)


def of_framework(error: web.HTTPException) -> ApiError:
    """Return the error for a refusal by aiohttp, whose own text may repeat the request: that of `Expect` does."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return MethodNotAllowed(f"Use one of: {allowed}.", headers={"Allow": allowed})
    if error.status == HTTPStatus.NOT_FOUND:
        return NotFound("There is nothing at this path.")
    refused = ApiError(error.reason)
    refused.status, refused.code, refused.title = error.status, "refused", HTTPStatus(error.status).phrase
    return refused


def problem(error: ApiError, path: str, request_id: str) -> web.Response:
    """Return the problem document of an error."""
    document = {
        "type": f"/docs/problems#{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": path,
        "code": error.code,
        "messages": [str(fault) for fault in error.faults] or [error.detail],
        "errors": [{"parameter": fault.parameter, "message": fault.message} for fault in error.faults],
        "request_id": request_id,
    }
    return web.Response(
        # Whoever takes a key for an identifier or a path is not shown it again.
        body=masked_keys(orjson.dumps(document).decode()).encode(),
        status=error.status,
        headers={**error.headers, "Cache-Control": "no-store", REQUEST_ID: request_id},
        content_type="application/problem+json",
    )
