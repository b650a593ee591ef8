"""Requests with the compatible profile, by their key or their `Accept`, as the requests that operations expect.

Existing clients of such platforms send parameters in a body, repeat identifiers and call `/api` (decision 35).
"""

from aiohttp import web
from marshmallow import Schema
from yarl import URL

from service.errors import NotFound
from service.http.form_body import read_form
from service.http.profile import COMPATIBLE
from service.http.request_limits import BodyNotAllowed, require_bounded_target
from service.keys.record import ApiKey
from service.parameters.compatible_query import compatible_query
from service.telemetry.observation import CURRENT_OBSERVATION

COMPATIBLE_ROOT = "/api"
# What those clients expect where the contract has another default.
_DEFAULTS = {"envelope": "true"}


async def adapt_request(request: web.Request, key: ApiKey, schema: Schema) -> web.Request:
    """Return the request with all of its parameters in the query; raise ApiError.

    Without the profile, a request is returned unchanged, and refused if it has a body or a path below `/api`.
    """
    observation = CURRENT_OBSERVATION.get()
    if not (observation.is_compatible or key.profile == COMPATIBLE):
        return _require_plain(request)
    observation.is_compatible = True
    form = await read_form(request) if request.body_exists else ""
    require_bounded_target(request.raw_path + form)
    defaults = {name: value for name, value in _DEFAULTS.items() if name in schema.fields}
    sent = request.rel_url.raw_query_string
    query = compatible_query(sent, form, request.match_info, defaults)
    return request if query == sent else _with_query(request, query)


def _require_plain(request: web.Request) -> web.Request:
    if request.body_exists:
        raise BodyNotAllowed
    if request.path.startswith(f"{COMPATIBLE_ROOT}/"):
        raise NotFound("There is nothing at this path.")
    return request


def _with_query(request: web.Request, query: str) -> web.Request:
    url = URL.build(path=request.rel_url.raw_path, query_string=query, encoded=True)
    adapted = request.clone(rel_url=url)
    adapted._match_info = request._match_info  # noqa: SLF001 - `clone` leaves it out
    return adapted
