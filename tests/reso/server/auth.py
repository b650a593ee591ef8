"""Who may read: every client, those with the one token, or those that fetched a token with an id and a secret."""

from __future__ import annotations

import base64
import threading
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import orjson

from tests.reso.server.error_responses import JSON, ServerResponse, unauthorized

if TYPE_CHECKING:
    from tests.reso.server.server_settings import ServerSettings


class Auth:
    """Issues tokens and counts what they are used for."""

    def __init__(self, settings: ServerSettings) -> None:
        """Begin with the token of the settings, which never ends, or with none."""
        self._settings = settings
        self._left: dict[str, float] = {settings.token: float("inf")} if settings.token else {}
        self.issued = 0
        self.grants: list[str] = []  # of the tokens that were issued
        self._refresh_tokens: set[str] = set()
        self._lock = threading.Lock()

    @property
    def _is_open(self) -> bool:
        return self._settings.token is None and self._settings.client is None

    def check(self, authorization: str) -> None:
        """Use up one request of a token; raise Problem (401) for none or one that does not hold."""
        scheme, _, token = authorization.partition(" ")
        if self._is_open:
            return
        if scheme.lower() != "bearer" or not token:
            raise unauthorized("40100", "A bearer token is required")
        with self._lock:
            if self._left.get(token, 0) <= 0:
                raise unauthorized("40101", "The token is unknown or has expired")
            self._left[token] -= 1

    def expire(self) -> None:
        """Let every token that was issued end now."""
        with self._lock:
            self._left = {token: left for token, left in self._left.items() if token == self._settings.token}

    def revoke_refresh_tokens(self) -> None:
        """Let no refresh token that was issued hold any more."""
        with self._lock:
            self._refresh_tokens.clear()

    def issue(self, form: str, authorization: str) -> ServerResponse:
        """Answer a request for a token: grant type, id and secret in the form, or the latter two as Basic."""
        said = dict(parse_qsl(form))
        grant = said.get("grant_type", "")
        given = (said.get("client_id"), said.get("client_secret"))
        if self._settings.client is None or self._settings.client not in {given, _basic(authorization)}:
            return _answer(401, {"error": "invalid_client"})
        if grant not in self._grants:
            return _answer(400, {"error": "unsupported_grant_type"})
        if grant == "password" and (said.get("username"), said.get("password")) != self._settings.user:
            return _answer(400, {"error": "invalid_grant"})
        if grant == "refresh_token" and not self._use_refresh_token(said.get("refresh_token", "")):
            return _answer(400, {"error": "invalid_grant"})
        self.grants.append(grant)
        return _answer(200, self._new())

    @property
    def _grants(self) -> set[str]:
        first = "client_credentials" if self._settings.user is None else "password"
        return {first, "refresh_token"} if self._settings.refreshes else {first}

    def _use_refresh_token(self, token: str) -> bool:
        with self._lock:
            was_valid = token in self._refresh_tokens
            self._refresh_tokens.discard(token)
            return was_valid

    def _new(self) -> dict[str, object]:
        with self._lock:
            self.issued += 1
            token = f"issued-{self.issued}"
            self._left[token] = self._settings.token_requests or float("inf")
            issued = {"access_token": token, "token_type": "Bearer", "expires_in": self._settings.token_seconds}
            if not self._settings.refreshes:
                return issued
            self._refresh_tokens.add(refresh := f"refresh-{self.issued}")
            return issued | {"refresh_token": refresh}


def _basic(authorization: str) -> tuple[str, str] | None:
    scheme, _, encoded = authorization.partition(" ")
    try:
        name, _, secret = (
            base64.b64decode(encoded if scheme.lower() == "basic" else "", validate=True).decode().partition(":")
        )
    except ValueError:
        return None
    return name, secret


def _answer(status: int, body: dict[str, object]) -> ServerResponse:
    return ServerResponse(status, orjson.dumps(body), {"Content-Type": JSON, "Cache-Control": "no-store"})
