"""Every failure leaves as RFC 9457 `application/problem+json`: the outermost middleware."""

from __future__ import annotations

import logging
import secrets
import time
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
    Refused,
)
from service.headers import FURTHER, add, seal
from service.redaction import masked_keys
from service.reso.place import is_below
from service.reso.problem import odata_problem
from service.reso.versions import version
from service.telemetry.observation import OBSERVED, Observation
from service.unsound import refuse_unsound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger("service")


@web.middleware
async def answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors of ours, of the router and of nobody into problem documents; give every answer what all have."""
    request_id = secrets.token_hex(8)
    seen = Observation(request_id)
    OBSERVED.set(seen)
    # One object, so that what is added to it on the way is found here, also where the request was cloned meanwhile.
    further: dict[str, str] = {}
    request[FURTHER] = further
    if is_below(request.path):
        further.update(version(request))
    try:
        refuse_unsound(request)
        response = await handler(request)
    except Exception as error:
        response = problem(_known(error, request_id), request.path, request_id)
    add(response, further)
    seal(response, request_id, request)
    if request.body_exists:
        # It was not read: what follows it on this connection could be part of it.
        response.force_close()
    seen.answered_at = time.perf_counter()
    return response


def _known(error: Exception, request_id: str) -> ApiError:
    if isinstance(error, ApiError):
        _log_reason(error, request_id)
        return error
    if isinstance(error, web.HTTPException):
        return _of_framework(error)
    if isinstance(error, TimeoutError):
        return DeadlinePassed()
    _log.error("request %s failed", request_id, exc_info=error)
    return InternalError("an exception that nothing expected")


def _log_reason(error: ApiError, request_id: str) -> None:
    if isinstance(error, InternalError):
        _log.error("request %s: %s", request_id, error.reason)
    elif isinstance(error, EngineUnavailable):
        _log.warning("request %s: %s", request_id, error.reason)


def _of_framework(error: web.HTTPException) -> ApiError:
    """Return the error for a refusal by aiohttp, whose own text may repeat the request: that of `Expect` does."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return MethodNotAllowed(f"Use one of: {allowed}.", headers={"Allow": allowed})
    if error.status == HTTPStatus.NOT_FOUND:
        return NotFound("There is nothing at this path.")
    return Refused(HTTPStatus(error.status), error.reason)


def problem(error: ApiError, path: str, request_id: str) -> web.Response:
    """Return the problem document of an error, or below the RESO Web API what OData has for one."""
    if is_below(path):
        return odata_problem(error)
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
        headers=error.headers,
        content_type="application/problem+json",
    )
