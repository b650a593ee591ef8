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
from service.errors import InvalidRequest, NotFound, ParameterFault, Unauthorized
from service.http.requests import (
    MAX_ELEMENTS,
    BodyNotAllowed,
    MalformedRequest,
    RequestAdapter,
    joined_lines,
    require_bounded_target,
)
from service.http.responses import API_KEY_HEADER, API_KEY_PARAMETER
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
_NOT_A_KEY = (
    "The user name is not the id of an API key. Send what is between the two underscores of the key as the user name, "
    "and what follows as the password."
)
_BASIC = re.compile(r"Basic\b.*", re.IGNORECASE)
_ENCODED = re.compile(rb"[!-\"$-~]*")


# Some clients send the page before as a parameter: 90 bytes for each of up to 1,000 records.
MAX_FORM_BYTES = 262_144
# A form comes with the head of its request, or right after it.
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


# Filters that a program means to narrow by, also if its variable was nil.
_NARROWING = frozenset(
    {"agent_uuid", "platform_agent_id", "source_agent_id", "platform_office_id", "platform_company_id"}
)
_NO_VALUE = "has no value, and without it every record would match. Send one, or leave it out."


def compatible_query(
    query: str, form: str, path: Mapping[str, str], names: Collection[str], defaults: Mapping[str, str]
) -> tuple[str, int]:
    """Return the encoded query of a request from its URL and its form, and the number of unknown parameters left out.

    `names` are the known ones. Pairs without a value are left out too, and a pair that is in both counts once.
    `defaults` are added if their names are missing. Raises InvalidRequest if every repeated identifier differs from the
    one in the path, and for an identifier without a value where nothing else says which records are meant.
    """
    known = {*names, *(name for variable in path for name in _REPEATED.get(variable, ()))}
    pairs, unknown, faults = list[tuple[str, str]](), set[str](), list[ParameterFault]()
    for pair in dict.fromkeys((*query.split("&"), *form.split("&"))):
        name, _, value = pair.partition("=")
        if name not in known and "%" in name:
            name = unquote_plus(name)
        if value and name in known:
            pairs.append((name, pair))
        elif value:
            unknown.add(name)
        elif name in known & _NARROWING and not path:
            faults.append(ParameterFault(name, _NO_VALUE))
    if faults:
        raise InvalidRequest(*faults)
    for variable, identifier in path.items():
        pairs = _without_identifier(pairs, variable, identifier)
    sent = dict(pairs)
    added = (f"{name}={value}" for name, value in defaults.items() if name not in sent)
    return "&".join((*(pair for _, pair in pairs), *added)), len(unknown)


def _without_identifier(pairs: Sequence[tuple[str, str]], variable: str, identifier: str) -> list[tuple[str, str]]:
    repeated = _REPEATED.get(variable, frozenset())
    found = {unquote_plus(pair.partition("=")[2]).lower(): name for name, pair in pairs if name in repeated}
    if found and identifier.lower() not in found:
        raise InvalidRequest.of(next(iter(found.values())), "differs from the identifier in the path.")
    return [(name, pair) for name, pair in pairs if name not in repeated]


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
        """Return whether a form is for an operation or an unknown path; raise BodyNotAllowed if it is too long."""
        length, resource = request.content_length, request.match_info.route.resource
        is_form = (
            request.content_type == _FORM
            and length is not None
            and "Content-Encoding" not in request.headers
            and (resource is None or resource.canonical in self._form_paths)
        )
        if is_form and length is not None and length > MAX_FORM_BYTES:
            raise BodyNotAllowed(f"A form may have {MAX_FORM_BYTES} bytes; this one has {length}.")
        return is_form

    def advice_without_key(self, request: web.Request) -> str | None:
        """Return what to do about Basic credentials that hold no key, None if the request is not one of the profile."""
        is_basic = any(map(_BASIC.fullmatch, request.headers.getall("Authorization", ())))
        is_meant = request.path.startswith(f"{COMPATIBLE_ROOT}/") or self.recognizes(request)
        return _NOT_A_KEY if is_basic and is_meant else None

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
        defaults = {name: value for name, value in _DEFAULTS.items() if name in schema.fields}
        sent, known = request.rel_url.raw_query_string, (*schema.fields, API_KEY_PARAMETER)
        query, observation.ignored = compatible_query(sent, form, request.match_info, known, defaults)
        require_bounded_target(f"{request.rel_url.raw_path}?{query}")
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
