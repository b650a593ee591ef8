"""Authentication by the API key of a request (spec, Authentication), and what the key may not see."""

import binascii
import datetime as dt
import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from aiohttp import web
from marshmallow import Schema
from multidict import MultiMapping

from service.errors import Forbidden, ParameterFault, Unauthorized
from service.http.requests import RequestAdapter
from service.http.responses import API_KEY_HEADER, API_KEY_PARAMETER
from service.keys.api_key import KEY_ID_PATTERN, KEY_PREFIX, ApiKey, KeyText, parse_key
from service.keys.ring import KeyRing
from service.limits.admission import ConcurrencyLimit
from service.parameters.types import Parameter

_BASIC = re.compile(r"Basic +([A-Za-z0-9+/]+={0,2})", re.ASCII | re.IGNORECASE)
_KEY_ID = re.compile(KEY_ID_PATTERN, re.ASCII)


def key_from_basic(headers: MultiMapping[str]) -> str | None:
    """Return the key in the credentials, None if they hold none, like credentials for a proxy.

    The password is the key, with any user name; or the user name is the key's id and the password the rest of it.
    """
    matches = [_BASIC.fullmatch(line) for line in headers.getall("Authorization", [])]
    if len(matches) != 1 or matches[0] is None:
        return None
    user, _, password = _decoded(matches[0][1]).partition(":")
    if password.startswith(KEY_PREFIX):
        return password
    key_id = user.removeprefix(KEY_PREFIX)
    return f"{KEY_PREFIX}{key_id}_{password}" if _KEY_ID.fullmatch(key_id) and password else None


def _decoded(text: str) -> str:
    try:
        return b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


# RFC 6750, section 2.1: for clients that support no other header, on operations that accept it.
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/=-]+)", re.ASCII | re.IGNORECASE)

_MISSING = f"Send an API key in the {API_KEY_HEADER} header or the {API_KEY_PARAMETER} query parameter."
_MISSING_BEARER = (
    f"Send an API key as a bearer token, in the {API_KEY_HEADER} header or the {API_KEY_PARAMETER} query parameter."
)
_SEVERAL = "Send one API key, once in the header or once in the query. The same key may be in both."
# One text for all reasons in the key itself, so that an unknown key cannot be distinguished from an expired one.
_REFUSED = "The API key is not valid."
_NO_DIGEST = "0" * 64
# Keys share slots by id, and that of an unknown key is not believed yet.
_NO_ID = ""


class Bearer(StrEnum):
    """Whether an operation takes the key as a bearer token."""

    NEVER = "never"
    ALSO = "also"  # a request without one is read as with NEVER
    ALWAYS = "always"  # as well as in the header or the query


async def authenticate(
    request: web.Request, keys: KeyRing, unknown_keys: ConcurrencyLimit, adapter: RequestAdapter, bearer: Bearer
) -> ApiKey:
    """Return the key of the request; raise Unauthorized. Where no bearer token is read, `adapter` may allow HTTP Basic.

    A key that is in memory takes no slot and needs no request to Elasticsearch. Any other, whether its id is unknown or
    its secret wrong, holds a slot of `unknown_keys` while the keys are read again: the two take the same time, and
    neither delays a valid key.
    """
    tokens = None if bearer is Bearer.NEVER else bearer_tokens(request)
    reads_bearer = bearer is Bearer.ALWAYS or bool(tokens)
    sent = _sent_keys(request, tokens)
    basic = key_from_basic(request.headers) if not sent and adapter.reads_basic and not reads_bearer else None
    if not sent and basic is None:
        raise Unauthorized(_MISSING_BEARER if reads_bearer else _MISSING)
    key = await _find_key(sent.pop() if basic is None else basic, keys, unknown_keys)
    if basic is not None:
        adapter.require_basic(request, key)
    return key


async def _find_key(sent: str, keys: KeyRing, unknown_keys: ConcurrencyLimit) -> ApiKey:
    text = parse_key(sent)
    if text is None:
        raise Unauthorized(_REFUSED)
    key = keys.recall(text.key_id)
    if not _is_secret_of(key, text):
        async with unknown_keys.slot(_NO_ID):
            await keys.renew()
        key = keys.recall(text.key_id)
        if not _is_secret_of(key, text):
            raise Unauthorized(_REFUSED)
    if key is None or not key.is_usable(dt.datetime.now(dt.UTC)):
        raise Unauthorized(_REFUSED)
    return key


async def confirm(key: ApiKey, keys: KeyRing) -> ApiKey:
    """Return the key as it is after a wait, and record its use; raise Unauthorized if it was revoked."""
    latest = await keys.find(key.key_id)
    now = dt.datetime.now(dt.UTC)
    if latest is None or not latest.continues(key, now):
        raise Unauthorized(_REFUSED)
    keys.usage.record_use(key.key_id, now)
    return latest


def _is_secret_of(key: ApiKey | None, text: KeyText) -> bool:
    """Compare in constant time, with a digest that no secret has if there is no key."""
    return hmac.compare_digest(_NO_DIGEST if key is None else key.digest, text.digest)


def _sent_keys(request: web.Request, bearer: list[str] | None) -> set[str]:
    """Return the key that was sent, or nothing; raise Unauthorized for several."""
    header: list[str] = request.headers.getall(API_KEY_HEADER, [])
    query: list[str] = request.query.getall(API_KEY_PARAMETER, [])
    sent: set[str] = {*header, *query, *(bearer or ())}
    if max(len(header), len(query), len(bearer or ())) > 1 or len(sent) > 1:
        raise Unauthorized(_SEVERAL)
    return sent


def bearer_tokens(request: web.Request) -> list[str]:
    """Return the bearer tokens of a request; other authentication schemes are ignored."""
    matches = map(_BEARER.fullmatch, request.headers.getall("Authorization", []))
    return [match[1] for match in matches if match]


def reject_guarded_parameters(schema: Schema, sent: Mapping[str, Any], hidden: frozenset[str]) -> None:
    """Raise Forbidden, naming every sent parameter that belongs to one of the `hidden` groups."""
    faults = [
        ParameterFault(name, f"this key may not see the field group {parameter.group}.")
        for name, parameter in schema.fields.items()
        if isinstance(parameter, Parameter) and parameter.group in hidden and sent[name] != parameter.load_default
    ]
    if faults:
        raise Forbidden(*faults)
