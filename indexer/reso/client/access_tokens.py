"""Access tokens for the source: a configured bearer token, or one requested with OAuth.

The grants are client credentials, password, and refresh token, from the settings.
"""

import asyncio
import hashlib
import re
import time
from http import HTTPStatus
from typing import Annotated

import aiohttp
import msgspec

from cluster.http.headers import parse_retry_after
from cluster.tls import is_exposed
from indexer.errors import SourceError
from indexer.reso.client.limits import SourceRateLimiter
from indexer.reso.client.odata import TransientSourceError, read_small_body
from indexer.reso.mirror import RefreshTokens
from indexer.reso.settings import ResoSettings

_NEEDED = (
    "BROKERAGE_RESO_TOKEN_URL needs BROKERAGE_RESO_CLIENT_ID and BROKERAGE_RESO_CLIENT_SECRET, or "
    "BROKERAGE_RESO_USERNAME and BROKERAGE_RESO_PASSWORD, or BROKERAGE_RESO_REFRESH_TOKEN."
)
_PASSWORD_NEEDED = "BROKERAGE_RESO_USERNAME and BROKERAGE_RESO_PASSWORD must be set together."  # noqa: S105
_URL_NEEDED = "BROKERAGE_RESO_USERNAME and BROKERAGE_RESO_REFRESH_TOKEN need BROKERAGE_RESO_TOKEN_URL."


def check_settings(settings: ResoSettings) -> None:
    """Raise SourceError for contradictory or incomplete settings."""
    if settings.token and settings.token_url:
        raise SourceError("Set BROKERAGE_RESO_TOKEN or BROKERAGE_RESO_TOKEN_URL, not both.")
    if bool(settings.username) != bool(settings.password):
        raise SourceError(_PASSWORD_NEEDED)
    if not settings.token_url and (settings.username or settings.refresh_token):
        raise SourceError(_URL_NEEDED)
    has_client = settings.client_id and settings.client_secret
    if settings.token_url and not (has_client or settings.username or settings.refresh_token):
        raise SourceError(_NEEDED)


class TokenGrants:
    """The forms that request a token, and the refresh token that the last response gave."""

    def __init__(self, settings: ResoSettings, store: RefreshTokens | None = None) -> None:
        self._settings, self._store = settings, store
        self._given = hashlib.sha256(settings.refresh_token.encode()).hexdigest() if settings.refresh_token else ""
        kept = store.load(self._given) if store is not None and self._given else None
        self._refresh_token = kept or settings.refresh_token

    @property
    def form(self) -> dict[str, str]:
        settings = self._settings
        client = {"client_id": settings.client_id, "client_secret": settings.client_secret}
        options = {name: value for name, value in {**client, "scope": settings.scope}.items() if value}
        if self._refresh_token:
            return {"grant_type": "refresh_token", "refresh_token": self._refresh_token, **options}
        if settings.username:
            user = {"username": settings.username, "password": settings.password}
            return {"grant_type": "password", **user, **options}
        return {"grant_type": "client_credentials", **options}

    @property
    def names(self) -> str:
        """The settings that the next request depends on, for a message."""
        if self._refresh_token:
            return "BROKERAGE_RESO_REFRESH_TOKEN"
        user = "BROKERAGE_RESO_USERNAME, BROKERAGE_RESO_PASSWORD, " if self._settings.username else ""
        return f"{user}BROKERAGE_RESO_CLIENT_ID, BROKERAGE_RESO_CLIENT_SECRET and BROKERAGE_RESO_SCOPE"

    def renew(self, refresh_token: str | None) -> None:
        """Use the refresh token of a response from now on; one without it leaves the present one."""
        if not refresh_token:
            return
        self._refresh_token = refresh_token
        if self._store is not None and self._given:
            self._store.save(self._given, refresh_token)

    def drop_refused(self) -> bool:
        """Forget a refresh token that was refused; return whether there is another grant to request a token with."""
        had_refresh_token, self._refresh_token = bool(self._refresh_token), ""
        settings = self._settings
        return had_refresh_token and bool(settings.username or (settings.client_id and settings.client_secret))


# Tokens are renewed this long before they expire, because a request takes time.
_MARGIN_SECONDS = 30.0
# New tokens that may be rejected in a row before the run fails.
_MAX_UNPROVEN_TOKENS = 3


_BEARER_PATTERN = r"\A[!-~]{1,16384}\Z"
_LONGEST_SECONDS = 10 * 365 * 86_400


class _TokenResponse(msgspec.Struct):
    # As in the header that it is sent in (RFC 6750, section 2.1).
    access_token: Annotated[str, msgspec.Meta(pattern=_BEARER_PATTERN)]
    expires_in: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_SECONDS)] = 3600.0
    refresh_token: str | None = None


_decode_token = msgspec.json.Decoder(_TokenResponse, strict=False).decode


def exposed_message(address: str, secret: str) -> str:
    """Return the refusal of an address that a secret would be sent to unencrypted."""
    return (
        f"{address} begins with http://, so {secret} would cross the network unencrypted: use https://, or set "
        "BROKERAGE_RESO_ALLOW_HTTP=true if you trust the network."
    )


class AccessTokenProvider:
    """The current access token; empty for a source without authentication."""

    def __init__(self, settings: ResoSettings, store: RefreshTokens | None = None) -> None:
        """Raise SourceError for contradictory or incomplete settings."""
        check_settings(settings)
        if is_exposed(settings.token_url) and not settings.allow_http:
            raise SourceError(exposed_message("BROKERAGE_RESO_TOKEN_URL", "BROKERAGE_RESO_CLIENT_SECRET"))
        self._settings = settings
        self._grants = TokenGrants(settings, store)
        self._token = settings.token.strip()
        if self._token and not re.fullmatch(_BEARER_PATTERN, self._token):
            raise SourceError("BROKERAGE_RESO_TOKEN cannot be used: it has spaces, control or non-ASCII characters.")
        self._valid_until = 0.0 if settings.token_url else float("inf")  # on the monotonic clock
        self._unproven = 0  # tokens issued since the last successful request
        self._lock = asyncio.Lock()

    async def token(self, session: aiohttp.ClientSession, rate_limiter: SourceRateLimiter) -> str:
        """Return a valid token; raise SourceError if none is issued, or aiohttp's errors."""
        async with self._lock:
            if time.monotonic() >= self._valid_until:
                await self._request_token(session, rate_limiter)
            return self._token

    def reject(self, token: str) -> bool:
        """Discard a rejected token; return whether another can be requested."""
        if token == self._token and self._settings.token_url:
            self._valid_until = 0.0
        return bool(self._settings.token_url) and self._unproven <= _MAX_UNPROVEN_TOKENS

    def confirm(self) -> None:
        self._unproven = 0

    async def _request_token(self, session: aiohttp.ClientSession, rate_limiter: SourceRateLimiter) -> None:
        requested_at, self._unproven = time.monotonic(), self._unproven + 1
        while (issued := await self._fetch_token(session, rate_limiter)) is None:
            requested_at = time.monotonic()
        self._grants.renew(issued.refresh_token)
        self._token = issued.access_token
        self._valid_until = requested_at + issued.expires_in - _MARGIN_SECONDS

    async def _fetch_token(
        self, session: aiohttp.ClientSession, rate_limiter: SourceRateLimiter
    ) -> _TokenResponse | None:
        """Return the response to the next grant, None if it was refused and there is another one."""
        url, names = self._settings.token_url, self._grants.names
        async with (
            rate_limiter.request() as sent,
            session.post(url, data=self._grants.form, allow_redirects=False) as response,
        ):
            body = await read_small_body(response)
            sent.received = len(body)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR or response.status == HTTPStatus.TOO_MANY_REQUESTS:
            seconds = parse_retry_after(response.headers.get("Retry-After", ""))
            raise TransientSourceError(f"{url} returned {response.status}.", seconds)
        try:
            return _decode_token(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if self._grants.drop_refused():
                return None
            raise SourceError(f"{url} returned {response.status} without a token. Check {names}.") from None
