"""Requests and problems of the compatible profile, by their key or their `Accept` (decision 35).

Existing clients of such platforms send parameters in a body, repeat identifiers and call `/api`.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_plus

from aiohttp import web
from marshmallow import Schema
from yarl import URL

from service.capability import Capability, Surface
from service.errors import InvalidRequest, NotFound, Unauthorized
from service.http.negotiation import MAX_ELEMENTS
from service.http.requests import (
    MAX_URL_BYTES,
    BodyNotAllowed,
    MalformedRequest,
    RequestAdapter,
    joined_lines,
    require_bounded_target,
)
from service.http.responses import API_KEY_HEADER
from service.keys.api_key import COMPATIBLE, ApiKey
from service.limits.admission import ConcurrencyLimited
from service.telemetry.observation import CURRENT_OBSERVATION

# Those clients take a cookie from the first response and fail without one. It identifies no one.
PROFILE_HEADERS: Mapping[str, str] = {
    "Set-Cookie": "session=none; Path=/; HttpOnly; SameSite=Lax",
    "Vary": "x-api-key, Authorization, Accept-Encoding, Accept",
}
_MEDIA_RANGE = re.compile(r"application/vnd\.[a-z0-9.-]+\+json[ \t]*;[ \t]*version=1[ \t]*(?:;.*)?")
_CACHED_HEADERS = 128


@lru_cache(maxsize=_CACHED_HEADERS)
def _names_profile(accept: str) -> bool:
    elements = accept.lower().split(",", MAX_ELEMENTS)
    return any(_MEDIA_RANGE.fullmatch(element.strip(" \t")) for element in elements)


_FORM = "application/x-www-form-urlencoded"
_NOT_COMPATIBLE = (
    f"HTTP Basic needs a key with the profile {COMPATIBLE}, or the Accept header of that profile: send the key in the "
    f"{API_KEY_HEADER} header."
)
_ENCODED = re.compile(rb"[!-\"$-~]*")


# A form has 8 KB at most and comes with the head of its request, or right after it.
_FORM_SECONDS = 3.0
# Of one key, while their forms have not arrived: neither a slot nor a rate limits them yet.
_WAITING_FORMS = 16


async def read_form(request: web.Request) -> str:
    """Return the body of a request that `takes_body` accepts, a query string; raise MalformedRequest."""
    body = await request.content.read()
    if not _ENCODED.fullmatch(body):
        raise MalformedRequest("The form in the body must be percent-encoded.")
    return body.decode()


# The parameters that repeat the identifier in a path, by its variable. Listings and offices declare theirs.
_REPEATED = {
    "guid": frozenset({"platform_agent_id", "agent_uuid", "source_agent_id"}),
    "platform_team_id": frozenset({"platform_team_id"}),
    "platform_company_id": frozenset({"platform_company_id"}),
}


def compatible_query(query: str, form: str, path: Mapping[str, str], defaults: Mapping[str, str]) -> str:
    """Return the encoded query of a request from its URL and its form, without pairs that have no value.

    A pair that is in both counts once. `defaults` are added if their names are missing. Raises InvalidRequest if every
    repeated identifier differs from the one in the path.
    """
    pairs = [pair for pair in dict.fromkeys((*query.split("&"), *form.split("&"))) if pair.partition("=")[2]]
    for variable, identifier in path.items():
        pairs = _without_identifier(pairs, variable, identifier)
    names = {_name(pair) for pair in pairs}
    return "&".join((*pairs, *(f"{name}={value}" for name, value in defaults.items() if name not in names)))


def _without_identifier(pairs: Sequence[str], variable: str, identifier: str) -> list[str]:
    repeated = _REPEATED.get(variable, frozenset())
    found = [pair for pair in pairs if _name(pair) in repeated]
    values = {unquote_plus(pair.partition("=")[2]).lower() for pair in found}
    if values and identifier.lower() not in values:
        raise InvalidRequest.of(_name(found[0]), "differs from the identifier in the path.")
    return [pair for pair in pairs if pair not in found]


def _name(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0])


COMPATIBLE_ROOT = "/api"
# What those clients expect where the contract has another default.
_DEFAULTS = {"envelope": "true"}


class CompatibleAdapter(RequestAdapter):
    """The profile of a request, by its key or its `Accept`."""

    headers = PROFILE_HEADERS
    reads_basic = True

    def __init__(self, form_paths: Collection[str]) -> None:
        """`form_paths` are the templates of paths that may receive a form; all others refuse every body unread."""
        self._form_paths = frozenset(form_paths)
        self._waiting = Counter[str]()  # requests whose form has not arrived, by key

    def recognizes(self, request: web.BaseRequest) -> bool:
        """Return whether `Accept` asks for the profile: `application/vnd.<name>+json;version=1`."""
        return _names_profile(joined_lines(request.headers, "Accept"))

    def takes_body(self, request: web.Request) -> bool:
        """Return whether a request is for an operation, and its body a form within the length limit of URLs."""
        length, resource = request.content_length, request.match_info.route.resource
        return (
            request.content_type == _FORM
            and length is not None
            and length <= MAX_URL_BYTES
            and "Content-Encoding" not in request.headers
            and resource is not None
            and resource.canonical in self._form_paths
        )

    def require_basic(self, request: web.Request, key: ApiKey) -> None:
        """Raise Unauthorized unless the key or the request has the profile."""
        if key.profile != COMPATIBLE and not self.recognizes(request):
            raise Unauthorized(_NOT_COMPATIBLE)

    async def adapt(self, request: web.Request, key: ApiKey, schema: Schema) -> web.Request:
        """Return a request of the profile with all of its parameters in the query; raise ApiError.

        Another request is returned unchanged, and refused if it has a body or a path below `/api`.
        """
        observation = CURRENT_OBSERVATION.get()
        if not (observation.is_compatible or key.profile == COMPATIBLE):
            if request.path.startswith(f"{COMPATIBLE_ROOT}/") and not request.body_exists:
                raise NotFound("There is nothing at this path.")
            if request.body_exists:
                raise BodyNotAllowed
            return request
        observation.is_compatible = True
        form = await self._form(request, key) if request.body_exists else ""
        require_bounded_target(request.raw_path + form)
        defaults = {name: value for name, value in _DEFAULTS.items() if name in schema.fields}
        sent = request.rel_url.raw_query_string
        query = compatible_query(sent, form, request.match_info, defaults)
        return request if query == sent else _with_query(request, query)

    async def _form(self, request: web.Request, key: ApiKey) -> str:
        """Return the form; raise MalformedRequest if it comes too late, and ConcurrencyLimited if many are awaited."""
        if request.content.is_eof():
            return await read_form(request)
        if self._waiting[key.key_id] >= _WAITING_FORMS:
            raise ConcurrencyLimited(_WAITING_FORMS)
        self._waiting[key.key_id] += 1
        try:
            async with asyncio.timeout(_FORM_SECONDS):
                return await read_form(request)
        except TimeoutError:
            raise MalformedRequest(f"The form in the body did not arrive within {_FORM_SECONDS:.0f} s.") from None
        finally:
            self._waiting[key.key_id] -= 1
            if not self._waiting[key.key_id]:
                del self._waiting[key.key_id]

    def problem(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the document with a word as `status`, which those clients test, and `status_code` the number."""
        return {**document, "status": "fail", "status_code": document["status"]}


def _with_query(request: web.Request, query: str) -> web.Request:
    url = URL.build(path=request.rel_url.raw_path, query_string=query, encoded=True)
    adapted = request.clone(rel_url=url)
    adapted._match_info = request._match_info  # noqa: SLF001 - `clone` leaves it out
    return adapted


def _adapter(surface: Surface) -> RequestAdapter:
    return CompatibleAdapter(surface.paths)


CAPABILITY = Capability("compatible", adapter=_adapter, second_root=COMPATIBLE_ROOT, pages=("move",))
