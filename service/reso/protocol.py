"""Conventions of OData below `/v1/reso`: versions, errors, formats, links, and the names of the query options.

Below the root path every response follows OData, errors included. The format of a response is chosen by `$format` or
`Accept` (OData 4.01, section 8.2.1).
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

import orjson
from aiohttp import web

from service.errors import ApiError, InvalidRequest, ParameterFault, Unauthorized
from service.http.problems import ErrorFormat
from service.http.requests import JSON, MediaRange, media_ranges
from service.keys.api_key import mask_keys
from service.request_context import RequestContext

RESO_ROOT = "/v1/reso"
# A filter with a hundred keys of 64 characters takes some 7,300 bytes.
MAX_RESO_URL_BYTES = 16_384


FILTER, ORDER_BY, SELECT, TOP = "$filter", "$orderby", "$select", "$top"
SKIP, COUNT, SKIP_TOKEN, FORMAT = "$skip", "$count", "$skiptoken", "$format"
EXPAND = "$expand"


class OrderBy(NamedTuple):
    """A property to order by, and its direction."""

    name: str
    is_descending: bool


class OptionNotImplemented(ApiError, status=501, code="not-implemented", title="Not implemented"):
    """An OData feature that this service does not implement."""

    def __init__(self, parameter: str, what: str, advice: str = "") -> None:
        fault = ParameterFault(parameter, f"{what} is not implemented by this service. {advice}".strip())
        super().__init__(str(fault), (fault,))


class EventsForgotten(ApiError, status=410, code="events-forgotten", title="Events forgotten"):
    """The events after a number are incomplete: some deletions are not stored any more, or other data are served."""

    def __init__(self, start: int, horizon: int, end: int) -> None:
        known = f"deletions up to EntityEventSequence {horizon} are no longer available"
        reason = known if start < horizon else f"EntityEventSequence {start} is not a number of the present data"
        fault = ParameterFault(
            "$filter", f"{reason}: reload all records, then continue after {end}, the last number before the reload."
        )
        super().__init__(str(fault), (fault,))


_VERSION, _MAX_VERSION = "OData-Version", "OData-MaxVersion"
_V4_01, _V4_0 = "4.01", "4.0"
# .NET clients of earlier versions add their name after a semicolon.
_NUMBER = re.compile(r"\s*([0-9]{1,3})\.([0-9]{1,3})\s*(?:;.*)?", re.ASCII)


def odata_version_header(request: web.BaseRequest) -> dict[str, str]:
    """Return the `OData-Version` header; bodies are the same in both versions, except metadata."""
    return {_VERSION: _V4_0 if is_limited_to_4_0(request.headers) else _V4_01}


def is_limited_to_4_0(headers: Mapping[str, str]) -> bool:
    """Whether a client supports no later version: then it does not know metadata in JSON."""
    return _version(headers, _MAX_VERSION) == (4, 0)


def require_known_version(headers: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a client that supports no version from 4.0, or that sends a later one than 4.01."""
    if _MAX_VERSION in headers and (_version(headers, _MAX_VERSION) or (0, 0)) < (4, 0):
        raise InvalidRequest.of(_MAX_VERSION, f"must be {_V4_0} or later: this service has {_V4_0} and {_V4_01}.")
    if _VERSION in headers and _version(headers, _VERSION) not in {(4, 0), (4, 1)}:
        raise InvalidRequest.of(_VERSION, f"must be {_V4_0} or {_V4_01}; a GET request needs none.")


def _version(headers: Mapping[str, str], name: str) -> tuple[int, int] | None:
    match = _NUMBER.fullmatch(headers.get(name, _V4_01))
    return (int(match[1]), int(match[2])) if match else None


# Excel and Power BI ask for a user name and a password if Basic is named.
_CHALLENGE = ", ".join(f'{scheme} realm="brokerage"' for scheme in ("Bearer", "ApiKey", "Basic"))


def odata_error_response(error: ApiError) -> web.Response:
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


RESO_ERRORS = ErrorFormat(
    paths=re.compile(RESO_ROOT.replace("/", "/+") + r"(?:/|\Z)"),
    render=odata_error_response,
    headers=odata_version_header,
    max_url_bytes=MAX_RESO_URL_BYTES,
)


XML = "application/xml"
ACCEPT = "Accept"
_SHORT_NAMES = {"json": JSON, "xml": XML}
# Parameters of JSON with the values that hold for every response; each has the prefix `odata.` in OData 4.0.
_ALWAYS = {
    "streaming": {"true", "false"},
    "exponentialdecimals": {"true", "false"},
    "charset": {"utf-8"},
}


class Format(NamedTuple):
    """A media type, and for JSON how much OData metadata it has, `minimal` by default, and whether as for IEEE 754.

    Numbers of 64 bits and decimals are strings then, which no client rounds.
    """

    media_type: str
    metadata: str = ""
    is_ieee754: bool = False

    def __str__(self) -> str:
        metadata = f";odata.metadata={self.metadata}" if self.metadata else ""
        return self.media_type + metadata + ";IEEE754Compatible=true" * self.is_ieee754

    @property
    def content_type(self) -> str:
        """The value of `Content-Type`, without what is the default of OData."""
        return self.media_type if self == DATA_FORMATS[0] else str(self)

    @property
    def is_full(self) -> bool:
        return self.metadata == "full"

    @property
    def is_annotated(self) -> bool:
        """Whether entities have other members or values than by default."""
        return self.is_full or self.is_ieee754

    def fits(self, accepted: MediaRange) -> bool:
        family = self.media_type.partition("/")[0]
        is_of_type = accepted.media_type in {self.media_type, f"{family}/*", "*/*"}
        return is_of_type and all(self._has(name, value) for name, value in accepted.parameters)

    def _has(self, name: str, value: str) -> bool:
        if (name := name.removeprefix("odata.")) == "metadata":
            return value == self.metadata
        if name == "ieee754compatible":
            return self.media_type == JSON and value == str(self.is_ieee754).lower()
        return value in (_ALWAYS.get(name, ()) if self.media_type == JSON else {"utf-8"} if name == "charset" else ())


# The best first.
DATA_FORMATS = tuple(
    Format(JSON, metadata, is_ieee754) for is_ieee754 in (False, True) for metadata in ("minimal", "none", "full")
)
METADATA_FORMATS = (Format(XML), Format(JSON))


class NotAcceptable(ApiError, status=406, code="not-acceptable", title="Not acceptable"):
    """None of the formats that the client accepts."""

    def __init__(self, parameter: str, offered: tuple[Format, ...]) -> None:
        names = " or ".join(str(offer) for offer in offered if not offer.is_ieee754)
        fault = ParameterFault(parameter, f"accepts none of the formats of this resource: ask for {names}.")
        super().__init__(str(fault), (fault,))


def negotiate_format(option: str | None, accept: str, offered: tuple[Format, ...]) -> Format:
    """Return the format for `$format`, which takes precedence, and the value of `Accept`; raise NotAcceptable.

    Without either, and for an `Accept` without a readable element, it is the first that is offered.
    """
    text = accept if option is None else _SHORT_NAMES.get(option.strip().lower(), option)
    chosen = _preferred(text, offered) if option is None or media_ranges(text) else None
    if chosen is None:
        raise NotAcceptable(ACCEPT if option is None else FORMAT, offered)
    return chosen


@lru_cache(128)
def _preferred(accept: str, offered: tuple[Format, ...]) -> Format | None:
    ranges = media_ranges(accept)
    if not ranges:
        return offered[0]
    best = max(offered, key=lambda offer: _weight(offer, ranges))
    return best if _weight(best, ranges) > 0 else None


def _weight(offer: Format, ranges: tuple[MediaRange, ...]) -> float:
    """Return the weight of the most specific range that includes a format, 0 if there is none."""
    fitting = filter(offer.fits, ranges)
    specific = max(fitting, key=lambda found: (-found.media_type.count("*"), len(found.parameters)), default=None)
    return 0 if specific is None else specific.weight


# Allowed in a query (RFC 3986, section 3.4), except its separators and the plus sign, which means a space.
_SAFE_IN_QUERY = "$'(),:;@!*/?-._~"


def service_root_url(call: RequestContext) -> str:
    """Return the URL of the service document, with a trailing slash."""
    return f"{call.client.origin}{RESO_ROOT}/"


def next_url(call: RequestContext, options: Mapping[str, str]) -> str:
    """Return the URL of the request with other query options."""
    query = "&".join(f"{key}={quote(value, safe=_SAFE_IN_QUERY)}" for key, value in options.items())
    return f"{call.client.origin}{call.client.url.raw_path}?{query}"


def entity_url(root: str, name: str, key: str) -> str:
    return f"{root}{name}('{quote(key.replace(chr(39), chr(39) * 2), safe=chr(39))}')"
