"""Error responses: the outermost middleware renders every failure as RFC 9457 `application/problem+json`."""

import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from service.errors import (
    ApiError,
    DeadlineExceeded,
    EngineUnavailable,
    HttpError,
    InternalError,
    MethodNotAllowed,
    NotFound,
)
from service.http.requests import (
    JSON,
    MAX_URL_BYTES,
    RequestAdapter,
    check_request,
    refuse_body,
    without_extra_slashes,
)
from service.http.responses import EXTRA_HEADERS, add_common_headers
from service.keys.api_key import mask_keys
from service.limits.rates import REFUSAL_PACER
from service.telemetry.observation import CURRENT_OBSERVATION, RequestObservation

_log = logging.getLogger("service")
# Characters: a path with an identifier of 128, each of which may be percent-encoded in UTF-8, has less.
_MAX_INSTANCE_LENGTH = 2_048
# What a path may contain besides letters and digits (RFC 3986, section 3.3). A percent sign stays if it begins an
# escape: those that are not valid UTF-8 are not decoded.
_PATH_CHARACTERS = "/:@!$&'()*+,;=%"
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CUT_ESCAPE = re.compile(r"%.?\Z")


@dataclass(frozen=True)
class ErrorFormat:
    """The protocol of the paths that do not respond to failures with problem documents.

    `headers` are added to every response below these paths, successful ones included.
    """

    paths: re.Pattern[str]  # matches the beginning of a request path, with its extra slashes
    render: Callable[[ApiError], web.Response]
    headers: Callable[[web.BaseRequest], Mapping[str, str]]
    max_url_bytes: int


def problem_middleware(formats: Sequence[ErrorFormat], adapter: RequestAdapter) -> Middleware:
    """Return the middleware that renders every error and adds the common headers to every response."""

    @web.middleware
    async def handle_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        error_format = _format_of(request.path, formats)
        request_id = secrets.token_hex(8)
        observation = RequestObservation(request_id)
        CURRENT_OBSERVATION.set(observation)
        # One object: what later steps add is found here even if the request was cloned in between.
        extra_headers: dict[str, str] = {}
        request[EXTRA_HEADERS] = extra_headers
        if error_format is not None:
            extra_headers.update(error_format.headers(request))
        else:
            observation.is_compatible = adapter.recognizes(request)
        try:
            check_request(request, MAX_URL_BYTES if error_format is None else error_format.max_url_bytes)
            found = request
            if request.match_info.http_exception is not None:
                found, handler = await without_extra_slashes(request, handler)
            if found.body_exists and not adapter.takes_body(found):
                refuse_body(found)
            response = await handler(found)
        except Exception as exception:
            response = _rendered(exception, request, observation, error_format, adapter)
        if observation.is_compatible:
            extra_headers.update(adapter.headers)
        response.headers.update(extra_headers)
        add_common_headers(response, request_id, request)
        if request.body_exists:
            # The body was not read: the bytes that follow on this connection could be part of it.
            response.force_close()
        observation.ready_at = time.perf_counter()
        if response.status >= HTTPStatus.BAD_REQUEST and (pacer := request.app.get(REFUSAL_PACER)) is not None:
            await pacer.pace(request, response.status, observation)
        return response

    return handle_errors


def _format_of(path: str, formats: Sequence[ErrorFormat]) -> ErrorFormat | None:
    for error_format in formats:
        if error_format.paths.match(path):
            return error_format
    return None


def _rendered(
    exception: Exception,
    request: web.Request,
    observation: RequestObservation,
    error_format: ErrorFormat | None,
    adapter: RequestAdapter,
) -> web.Response:
    error = _to_api_error(exception, observation.request_id)
    release_frames(exception)
    if error_format is not None:
        return error_format.render(error)
    return problem_response(error, request.path, observation.request_id, adapter if observation.is_compatible else None)


def release_frames(exception: BaseException) -> None:
    """Drop the tracebacks of an exception and of those that led to it.

    Variables of their frames refer to the exceptions: cycles that would hold the request and its connection, 15 KB,
    until the garbage collector looks at old objects.
    """
    seen: BaseException | None = exception
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__context__


def _to_api_error(error: Exception, request_id: str) -> ApiError:
    if isinstance(error, ApiError):
        _log_reason(error, request_id)
        return error
    if isinstance(error, web.HTTPException):
        return _framework_error(error)
    if isinstance(error, TimeoutError):
        return DeadlineExceeded()
    _log.error("request %s failed", request_id, exc_info=error)
    return InternalError("unexpected exception")


def _log_reason(error: ApiError, request_id: str) -> None:
    if isinstance(error, InternalError):
        _log.error("request %s: %s", request_id, error.reason)
    elif isinstance(error, EngineUnavailable) and error.reason:
        _log.warning("request %s: %s", request_id, error.reason)


def _framework_error(error: web.HTTPException) -> ApiError:
    """Translate a refusal by aiohttp, whose own text may repeat the request, as that for `Expect` does."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return MethodNotAllowed(f"Use one of: {allowed}.", headers={"Allow": allowed})
    if error.status == HTTPStatus.NOT_FOUND:
        return NotFound("There is nothing at this path.")
    return HttpError(HTTPStatus(error.status), error.reason)


def problem_response(
    error: ApiError, path: str, request_id: str, adapter: RequestAdapter | None = None
) -> web.Response:
    """Return the problem document of an error; as plain JSON if an `adapter` changes it."""
    document: Mapping[str, Any] = {
        "type": f"/docs/problems#{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": _instance(path),
        "code": error.code,
        "messages": error.messages,
        "errors": [{"parameter": fault.parameter, "message": fault.message} for fault in error.faults],
        "request_id": request_id,
    }
    if adapter is not None:
        document = adapter.problem(document)
    return web.Response(
        # A client may send its key as an identifier or a path: the response must not repeat it.
        body=mask_keys(orjson.dumps(document).decode()).encode(),
        status=error.status,
        headers=error.headers,
        content_type="application/problem+json" if adapter is None else JSON,
    )


def _instance(path: str) -> str:
    """Return a decoded path as a URI reference (RFC 9457, section 3.1.5): clients may parse it as one."""
    encoded = quote(_LONE_PERCENT.sub("%25", path[:_MAX_INSTANCE_LENGTH]), safe=_PATH_CHARACTERS, errors="replace")
    return _CUT_ESCAPE.sub("", encoded[:_MAX_INSTANCE_LENGTH])
