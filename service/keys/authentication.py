"""Authentication by the API key of a request (spec, Authentication), and what the key may not see."""

import binascii
import datetime as dt
import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from aiohttp import web
from marshmallow import Schema
from multidict import MultiMapping

from service.errors import Forbidden, ParameterFault, Unauthorized
from service.http.requests import RequestAdapter
from service.http.responses import API_KEY_HEADER, API_KEY_PARAMETER
from service.keys.api_key import KEY_ID_PATTERN, KEY_PREFIX, ApiKey, KeyText, parse_key
from service.keys.ring import KeyRing
from service.limits.admission import ConcurrencyLimit
from service.parameters import Parameter

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
_FORMS_OF_BASIC = "the user name is the key's id and the password its secret, or the password is the whole key."
_MISSING_ANY = (
    f"Send an API key as a user name and a password, as a bearer token, in the {API_KEY_HEADER} header or the "
    f"{API_KEY_PARAMETER} query parameter. With a user name, {_FORMS_OF_BASIC}"
)
_SEVERAL = "Send one API key, once in the header or once in the query. The same key may be in both."
# One text for all reasons in the key itself, so that an unknown key cannot be distinguished from an expired one.
_REFUSED = "The API key is not valid."
_REFUSED_BASIC = f"The user name or the password is not valid: {_FORMS_OF_BASIC}"
_REFUSED_LINK = "The link is no longer valid: send the API key with it."
_NO_DIGEST = "0" * 64
# Keys share slots by id, and that of an unknown key is not believed yet.
_NO_ID = ""


class Credentials(StrEnum):
    """How an operation takes the key, besides in the header or the query."""

    KEY = "key"  # in no other way, unless the adapter allows HTTP Basic
    BEARER = "bearer"  # as a bearer token; a request without one is read as with KEY
    ANY = "any"  # as a bearer token, by HTTP Basic, or as proved by a link


class Proof(NamedTuple):
    """The id of a key that was sent for an earlier page, and the digest of its secret."""

    key_id: str
    digest: str


async def authenticate(
    request: web.Request,
    keys: KeyRing,
    unknown_keys: ConcurrencyLimit,
    adapter: RequestAdapter,
    accepted: Credentials | Proof,
) -> ApiKey:
    """Return the key of the request, or of the proof of the link that it follows; raise Unauthorized.

    A key that is in memory takes no slot and needs no request to Elasticsearch. Any other, whether its id is unknown or
    its secret wrong, holds a slot of `unknown_keys` while the keys are read again: the two take the same time, and
    neither delays a valid key.
    """
    if isinstance(accepted, Proof):
        return await _find_key(accepted, keys, unknown_keys, _REFUSED_LINK)
    sent = _sent_keys(request, None if accepted is Credentials.KEY else bearer_tokens(request))
    if sent:
        return await _find_key(sent.pop(), keys, unknown_keys)
    is_any = accepted is Credentials.ANY
    if is_any and _sends_basic(request):
        return await _find_key(key_from_basic(request.headers) or "", keys, unknown_keys, _REFUSED_BASIC)
    basic = key_from_basic(request.headers) if adapter.reads_basic else None
    if basic is None:
        raise Unauthorized(_MISSING_ANY if is_any else adapter.advice_without_key(request) or _MISSING)
    key = await _find_key(basic, keys, unknown_keys)
    adapter.require_basic(request, key)
    return key


async def _find_key(
    sent: str | Proof, keys: KeyRing, unknown_keys: ConcurrencyLimit, refused: str = _REFUSED
) -> ApiKey:
    text = parse_key(sent) if isinstance(sent, str) else sent
    if text is None:
        raise Unauthorized(refused)
    key = keys.recall(text.key_id)
    if not _is_secret_of(key, text):
        async with unknown_keys.slot(_NO_ID):
            await keys.renew()
        key = keys.recall(text.key_id)
        if not _is_secret_of(key, text):
            raise Unauthorized(refused)
    if key is None or not key.is_usable(dt.datetime.now(dt.UTC)):
        raise Unauthorized(refused)
    return key


async def confirm(key: ApiKey, keys: KeyRing) -> ApiKey:
    """Return the key as it is after a wait, and record its use; raise Unauthorized if it was revoked."""
    latest = await keys.find(key.key_id)
    now = dt.datetime.now(dt.UTC)
    if latest is None or not latest.continues(key, now):
        raise Unauthorized(_REFUSED)
    keys.usage.record_use(key.key_id, now)
    return latest


def _is_secret_of(key: ApiKey | None, text: KeyText | Proof) -> bool:
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


def _sends_basic(request: web.Request) -> bool:
    return any(line.lower().startswith("basic ") for line in request.headers.getall("Authorization", []))


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
